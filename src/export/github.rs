//! The CI job that measures a shortlist: a GitHub Actions workflow with one matrix job a deployment, and a last job that
//! compares and posts the verdict.
//!
//! Values of an entry reach the shell through environment variables alone, never by substitution into a script. Every
//! `run` step is plain bash, so that the job can be rehearsed on any machine.

use crate::{Error, Result};
use serde_json::Value;

/// What a workflow needs beside the shortlist.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// `{"include": [entry, …]}`.
    pub shortlist: &'a Value,
    /// Command line of the search, for the file's head.
    pub command: &'a str,
    /// Labels of the runner that has the GPUs.
    pub runner: &'a [String],
}

/// Longest shortlist of a workflow; its command needs some room beside it.
const MOST_BYTES: usize = 120 << 10;

/// The workflow file.
///
/// # Errors
/// A shortlist without entries, or with one that has no launch command.
pub fn workflow(job: &Job<'_>) -> Result<String> {
    let none = |found: &str| Error::input("--emit github", found, "Loosen the limits, or choose another engine");
    let entries = job.shortlist["include"].as_array().map(Vec::as_slice).unwrap_or_default();
    if entries.is_empty() {
        return Err(none("nothing is feasible, so there is nothing to measure"));
    }
    if let Some(entry) = entries.iter().find(|e| e["launch"].as_str().is_none_or(str::is_empty)) {
        return Err(none(&format!(
            "{} has no launch command: {}",
            entry["name"],
            entry["notes"].as_str().unwrap_or("")
        )));
    }
    if let Some(entry) = entries.iter().find(|e| e["prefill"].is_string()) {
        return Err(none(&format!("{} needs two pools and a router, which no job here starts", entry["name"])));
    }
    let matrix = serde_yaml::to_string(entries).map_err(|e| none(&format!("the matrix cannot be written: {e}")))?;
    let matrix: String = matrix.lines().map(|line| format!("          {line}\n")).collect();
    let shortlist = serde_json::to_string(job.shortlist).map_err(|e| none(&e.to_string()))?;
    // Linux takes 128 KiB in one variable.
    if shortlist.len() > MOST_BYTES {
        let found = format!(
            "{} entries are {} bytes, too many for a job's variable of 128 KiB",
            entries.len(),
            shortlist.len()
        );
        return Err(Error::input("--emit github", found, "Ask for fewer with --shortlist"));
    }
    let command: String = job.command.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let runner = job.runner.join(", ");
    Ok(TEMPLATE
        .replace("@COMMAND@", &command)
        .replace("@RUNNER@", &runner)
        .replace("@MATRIX@\n", &matrix)
        .replace("@SHORTLIST@", &shortlist.replace('\'', "''")))
}

const TEMPLATE: &str = r#"# Measures the finalists of a search and says whether they behave as predicted.
# Written by: @COMMAND@
# The runners need the engine, curl, and `inferasim` on the PATH.
name: measure finalists
on:
  workflow_dispatch:
    inputs:
      issue:
        description: Issue or pull request that gets the verdict as a comment
        required: false
        type: string
permissions:
  contents: read
  issues: write
  pull-requests: write
jobs:
  measure:
    name: ${{ matrix.name }}
    runs-on: [@RUNNER@]
    timeout-minutes: 360
    strategy:
      fail-fast: false
      max-parallel: 1
      matrix:
        include:
@MATRIX@
    env:
      ENTRY: ${{ toJSON(matrix) }}
      LAUNCH: ${{ matrix.launch }}
      URL: http://127.0.0.1:8000
      START_SECONDS: '1800'
    defaults:
      run:
        shell: bash
    steps:
      - name: Write the entry
        run: |
          mkdir -p result
          printf '%s\n' "$ENTRY" >result/entry.json
          inferasim --version
      - name: Start the engine
        run: |
          setsid bash -c "$LAUNCH" >result/engine.log 2>&1 </dev/null &
          echo $! >engine.pid
      - name: Wait until it answers
        run: |
          for _ in $(seq "$START_SECONDS"); do
            if curl --silent --fail --output /dev/null "$URL/health"; then exit 0; fi
            if ! kill -0 "$(cat engine.pid)" 2>/dev/null; then tail -n 50 result/engine.log; exit 1; fi
            sleep 1
          done
          tail -n 50 result/engine.log
          exit 1
      - name: Measure
        run: inferasim measure --shortlist result/entry.json --one-instance --url "$URL" --out result
      - name: Stop the engine
        if: always()
        run: |
          if [ -s engine.pid ]; then
            kill -TERM -- "-$(cat engine.pid)" 2>/dev/null || true
            for _ in $(seq 30); do kill -0 -- "-$(cat engine.pid)" 2>/dev/null || exit 0; sleep 1; done
            kill -KILL -- "-$(cat engine.pid)" 2>/dev/null || true
          fi
      - name: Keep the result
        if: always()
        uses: actions/upload-artifact@v4
        with:
          name: result-${{ matrix.rank }}
          path: result
  compare:
    name: verdict
    needs: measure
    if: always()
    runs-on: [@RUNNER@]
    env:
      SHORTLIST: '@SHORTLIST@'
      ISSUE: ${{ inputs.issue }}
      GH_TOKEN: ${{ github.token }}
    defaults:
      run:
        shell: bash
    steps:
      - name: Fetch the results
        uses: actions/download-artifact@v4
        with:
          path: measured
      - name: Compare
        run: |
          printf '%s\n' "$SHORTLIST" >shortlist.json
          code=0
          inferasim compare measured --shortlist shortlist.json --anchors anchors --markdown verdict.md || code=$?
          if [ -s verdict.md ]; then cat verdict.md >>"$GITHUB_STEP_SUMMARY"; fi
          # 1 says that a finalist moved: that is the verdict, not a fault.
          test "$code" -le 1
      - name: Post the verdict
        if: inputs.issue != ''
        run: gh issue comment "$ISSUE" --repo "$GITHUB_REPOSITORY" --body-file verdict.md
      - name: Keep the anchors
        if: always()
        uses: actions/upload-artifact@v4
        with:
          name: anchors
          path: |
            anchors
            verdict.md
"#;

#[cfg(test)]
#[path = "github_tests.rs"]
mod tests;
