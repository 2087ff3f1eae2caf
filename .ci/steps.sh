# Named, timed steps. A step that fails ends the run with its own exit code.

started=$SECONDS
log=()

step() { # step NAME COMMAND...
  local name=$1 at=$SECONDS code=0
  shift
  printf '\n==> %s\n' "$name"
  # In a subshell of its own, so that the first failing command of a function ends it.
  set +e
  (set -e; "$@")
  code=$?
  set -e
  log+=("$(printf '%5d s  %-24s %s' "$((SECONDS - at))" "$name" "$([ "$code" -eq 0 ] && echo passed || echo "failed ($code)")")")
  if [ "$code" -ne 0 ]; then
    summary
    exit "$code"
  fi
}

summary() {
  printf '\n'
  printf '%s\n' "${log[@]}"
  printf '%5d s  in all\n' "$((SECONDS - started))"
}
