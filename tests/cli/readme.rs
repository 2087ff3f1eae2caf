//! Every flag in a command of the README is one that the command knows.

use crate::command::{inferasim, tune};

#[test]
fn commands_of_the_readme_exist() {
    let readme = include_str!("../../README.md");
    let commands: Vec<Vec<&str>> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("    inferasim"))
        .map(|rest| rest.split(" #").next().unwrap_or(rest).split_whitespace().collect())
        .collect();
    assert!(commands.len() > 10, "{commands:?}");
    for words in commands {
        let (help, words) = if words[0] == "-tune" {
            let own = words.get(1).filter(|w| ["merge", "dispatch"].contains(w)).copied().unwrap_or_default();
            let to_it = words.iter().position(|w| *w == "--").unwrap_or(words.len());
            (tune(&format!("{own} --help")), &words[1..to_it])
        } else {
            let nested = words.get(1).filter(|word| !word.starts_with('-'));
            let nested = nested.map(|word| inferasim(&format!("{} {word} --help", words[0])));
            let help = nested.filter(|help| help.code == 0);
            (help.unwrap_or_else(|| inferasim(&format!("{} --help", words[0]))), &words[1..])
        };
        assert_eq!(help.code, 0, "{words:?}");
        // A subcommand of a subcommand lists its flags in a help of its own.
        for flag in words.iter().filter(|w| w.starts_with("--") && **w != "--help") {
            assert!(help.stdout.contains(flag), "{flag} of {words:?} is not in: {}", help.stdout);
        }
    }
}
