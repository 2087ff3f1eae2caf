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
            (tune("--help"), &words[1..])
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
