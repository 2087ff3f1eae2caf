//! Which text has exactly this many o200k_base tokens and was never sent before?

use super::random::Random;
use crate::{Error, Result};
use std::sync::LazyLock;
use tiktoken_rs::CoreBPE;

/// Words that are one o200k_base token each, alone and after a space (a test encodes them all).
const WORDS: &str = "time year people way day man thing woman life child world school state family student group country problem hand \
part place case week company system program question work government number night point home water room mother \
area money story fact month lot right study book eye job word business issue side kind head house service friend \
father power hour game line end member law car city community name team minute idea kid body information back \
parent face others level office door health person art war history party result change reason research girl \
moment air teacher force education foot boy age policy music market sense nation plan college interest death \
experience effect use class control field development role rate heart drug show leader light voice wife mind \
price report decision son view relationship town road arm difference value building action season tax director \
position player record paper space ground form event official matter center site project activity star table \
need court oil cost industry figure street image phone data picture practice piece land product doctor wall \
patient worker news test movie north love support technology step baby computer type attention film tree source \
organization hair look nothing choice future energy the and of in to with for from over under about after before \
between through during against within without";

static WORD_LIST: LazyLock<Vec<&'static str>> = LazyLock::new(|| WORDS.split_whitespace().collect());

/// The o200k_base tokenizer, built in.
pub struct Tokenizer(CoreBPE);

impl Tokenizer {
    /// Loads the vocabulary carried by the binary; takes about a third of a second.
    pub fn load() -> Result<Self> {
        tiktoken_rs::o200k_base().map(Self).map_err(|e| Error::input("o200k_base", e.to_string(), ""))
    }

    /// Tokens of a text; text that looks like a special token counts as text.
    pub fn count(&self, text: &str) -> usize {
        self.0.encode_ordinary(text).len()
    }
}

/// Prose of exactly `tokens` o200k_base tokens. Every word and every full stop is one token, and the first words
/// differ from seed to seed, so no two prompts share a cacheable prefix.
pub fn prose(tokens: u32, random: &mut Random) -> String {
    let mut text = String::with_capacity(tokens as usize * 6);
    append(&mut text, tokens, random);
    text
}

/// Appends `tokens` tokens to a text that is empty or ends in a word or full stop of this vocabulary.
pub fn append(text: &mut String, tokens: u32, random: &mut Random) {
    let mut sentence = 8 + random.below(9);
    let mut ends_in_word = text.ends_with(|c: char| c.is_ascii_alphabetic());
    for _ in 0..tokens {
        if sentence == 0 && ends_in_word {
            text.push('.');
            ends_in_word = false;
            sentence = 8 + random.below(9);
            continue;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(WORD_LIST[random.below(WORD_LIST.len())]);
        ends_in_word = true;
        sentence = sentence.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_exact() {
        let tokenizer = Tokenizer::load().unwrap();
        for word in WORD_LIST.iter() {
            assert_eq!(tokenizer.count(word), 1, "{word}");
            assert_eq!(tokenizer.count(&format!(" {word}")), 1, "{word} after a space");
        }
        for tokens in [1, 2, 17, 200, 1_000, 10_000, 100_000] {
            let text = prose(tokens, &mut Random::new(u64::from(tokens), 0));
            assert_eq!(tokenizer.count(&text), tokens as usize);
        }
    }

    /// "hello world" is two tokens in the published vocabulary: 24912, 2375.
    #[test]
    fn the_vocabulary_is_o200k() {
        let tokenizer = Tokenizer::load().unwrap();
        assert_eq!(tokenizer.0.encode_ordinary("hello world"), [24912, 2375]);
    }

    #[test]
    fn prompts_of_one_run_share_no_prefix() {
        let (a, b) = (prose(100, &mut Random::new(1, 0)), prose(100, &mut Random::new(1, 1)));
        assert_ne!(a.split(' ').take(4).collect::<Vec<_>>(), b.split(' ').take(4).collect::<Vec<_>>());
    }
}
