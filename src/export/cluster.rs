//! How are the parts of a search spread over machines? Job files for engines that exist: Slurm arrays, Kubernetes
//! indexed Jobs, Ray drivers, GitHub Actions matrices. Each runs every part and then joins them.

use super::shell;

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// The program: a name on the machines' path, or a path.
    pub program: String,
    /// The flags of the search.
    pub flags: Vec<String>,
    /// Number of parts.
    pub count: u64,
    /// Folder of the parts, seen by all machines.
    pub folder: String,
}

impl Parts {
    /// One part; `index` is what a shell puts in its place.
    fn part(&self, index: &str) -> String {
        let flags: Vec<String> = self.flags.iter().map(|w| shell(w)).collect();
        format!(
            "{} {} --shard {index}/{} --out {}",
            shell(&self.program),
            flags.join(" "),
            self.count,
            shell(&self.folder)
        )
    }

    fn merge(&self) -> String {
        let folder = shell(&self.folder);
        format!("{} merge {folder}/shard-*-of-{}.json --json --no-report", shell(&self.program), self.count)
    }

    /// An array job with one task a part; the last part to end joins all.
    pub fn slurm(&self) -> String {
        format!(
            "#!/bin/bash\n#SBATCH --job-name=inferasim-tune\n#SBATCH --array=0-{last}\n#SBATCH --ntasks=1\n\
             #SBATCH --output={folder}/slurm-%A-%a.out\n\
             # Join the parts with: sbatch --dependency=afterok:JOB --wrap '{merge} > {folder}/answer.json'\n\
             set -euo pipefail\nmkdir -p {folder}\n{part}\n",
            last = self.count - 1,
            folder = shell(&self.folder),
            merge = self.merge(),
            part = self.part("$SLURM_ARRAY_TASK_ID"),
        )
    }

    /// The command that a dependent Slurm job runs.
    pub fn slurm_merge(&self) -> String {
        format!("{} > {}/answer.json", self.merge(), shell(&self.folder))
    }

    /// An indexed Job; the folder must be a volume that all pods share.
    pub fn kubernetes(&self, image: &str, claim: &str) -> String {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        format!(
            "# kubectl apply -f job.yaml; kubectl wait --for=condition=complete job/inferasim-tune\n\
             # then, in a pod with the same volume: {merge}\n\
             apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: inferasim-tune\nspec:\n  completionMode: Indexed\n  \
             completions: {count}\n  parallelism: {count}\n  backoffLimitPerIndex: 2\n  maxFailedIndexes: {count}\n  \
             template:\n    spec:\n      restartPolicy: Never\n      containers:\n        - name: part\n          image: \
             {image}\n          command: [sh, -c, {command}]\n          volumeMounts:\n            - name: parts\n              \
             mountPath: {folder}\n      volumes:\n        - name: parts\n          persistentVolumeClaim:\n            \
             claimName: {claim}\n",
            merge = self.merge(),
            count = self.count,
            image = quoted(image),
            command = quoted(&self.part("$JOB_COMPLETION_INDEX")),
            folder = quoted(&self.folder),
            claim = quoted(claim),
        )
    }

    /// A driver for `ray job submit`: one task a part, tried again twice, then the join.
    pub fn ray(&self) -> String {
        // JSON's strings are Python's.
        let list = |words: &[String]| serde_json::to_string(words).unwrap_or_default();
        let command: Vec<String> = std::iter::once(self.program.clone()).chain(self.flags.iter().cloned()).collect();
        format!(
            "import glob, subprocess, sys\nimport ray\n\nCOMMAND = {command}\nCOUNT = {count}\nFOLDER = {folder}\n\n\n\
             @ray.remote(num_cpus=1, max_retries=2, retry_exceptions=True)\ndef part(index):\n    \
             subprocess.run(COMMAND + [\"--shard\", f\"{{index}}/{{COUNT}}\", \"--out\", FOLDER], check=True)\n\n\n\
             ray.init()\nray.get([part.remote(index) for index in range(COUNT)])\n\
             files = sorted(glob.glob(f\"{{FOLDER}}/shard-*-of-{{COUNT}}.json\"))\n\
             with open(f\"{{FOLDER}}/answer.json\", \"w\") as answer:\n    \
             sys.exit(subprocess.run([COMMAND[0], \"merge\", *files, \"--json\", \"--no-report\"], \
             stdout=answer).returncode)\n",
            command = list(&command),
            count = self.count,
            folder = serde_json::to_string(&self.folder).unwrap_or_default(),
        )
    }

    /// A workflow: a matrix of parts, each an artifact, and a job that joins them.
    pub fn github(&self) -> String {
        let indices: Vec<String> = (0..self.count).map(|i| i.to_string()).collect();
        let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
        format!(
            "name: inferasim-tune\non: workflow_dispatch\njobs:\n  part:\n    runs-on: ubuntu-latest\n    strategy:\n      \
             fail-fast: false\n      matrix:\n        shard: [{indices}]\n    steps:\n      - uses: actions/checkout@v4\n      \
             - run: cargo install --path . --locked\n      - run: {part}\n      - uses: actions/upload-artifact@v4\n        \
             with:\n          name: shard-${{{{ matrix.shard }}}}\n          path: {files}\n  merge:\n    needs: part\n    \
             runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v4\n      - run: cargo install --path . \
             --locked\n      - uses: actions/download-artifact@v4\n        with:\n          pattern: shard-*\n          path: \
             {folder}\n          merge-multiple: true\n      - run: {merge}\n      - uses: actions/upload-artifact@v4\n        \
             with:\n          name: answer\n          path: {answer}\n",
            indices = indices.join(", "),
            part = quoted(&self.part("${{ matrix.shard }}")),
            files = quoted(&format!("{}/shard-*.json", self.folder)),
            folder = quoted(&self.folder),
            merge = quoted(&self.slurm_merge()),
            answer = quoted(&format!("{}/answer.json", self.folder)),
        )
    }
}
