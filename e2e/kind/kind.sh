#!/usr/bin/env bash
# A real cluster of kubelets in containers, with Stratos in it. docs/development.md describes it.
#
#   kind.sh up        bring up Docker where there is none, the node image where it cannot be pulled, and the cluster
#   kind.sh load      make the images of this checkout and put them onto the cluster's nodes
#   kind.sh install   install cert-manager and Stratos, or upgrade them
#   kind.sh test      run the suite; more arguments are go test's
#   kind.sh look      show nodes, pools, pods and containers
#   kind.sh kubectl   run kubectl on the cluster
#   kind.sh logs      collect logs into dist/kind
#   kind.sh down      remove the cluster, and end Docker where it is ours and nobody else uses it
#   kind.sh try       bring it all up, with a pool to play with
#   kind.sh all       all of it in a new cluster, with logs when something fails
#
# STRATOS_KIND_CLUSTER names the cluster (stratos-e2e), KIND_NODE_IMAGE an image that is used as it is.
# STRATOS_KIND_AT_ONCE is how many tests run side by side (5, or 1 on a slow machine), STRATOS_KIND_LIVES how often a node
# comes up where a test repeats that (5, or 3), STRATOS_KIND_ROUNDS in how many rounds latencies are measured (20, or 4).
# STRATOS_KIND_SUITE chooses other tests, in a cluster of their own: flannel, or cni.
# STRATOS_KIND_BESIDE names such a suite that `all` runs at the same time as its own, or afterwards on a slow machine; the
# tests that change the release run in that one's cluster then.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/settings.sh"
. "$here/offline/docker.sh"
. "$here/offline/nodeimage.sh"
. "$here/flannel.sh"
. "$here/cluster.sh"
. "$here/try.sh"

# pace sets at_once, how many tests run side by side (each has three to eight nodes that boot), lives, how often a node
# comes up where a test repeats that, rounds, in how many startLatencies measures, and together, whether the other suite
# runs at the same time. On a machine that is slow to start a process, as a virtual machine without help from its
# processor is, what two clusters and a dozen nodes do without any test fills both cores, so that all takes ten times as
# long: there one thing is done after the other.
pace() {
  at_once=${STRATOS_KIND_AT_ONCE:-} lives=${STRATOS_KIND_LIVES:-} rounds=${STRATOS_KIND_ROUNDS:-}
  local began took tests=5 often=5 many=20
  together=1
  began=$(date +%s%N)
  for _ in {1..100}; do /bin/true; done
  took=$((($(date +%s%N) - began) / 100000))
  if [ $took -gt 2500 ]; then tests=1 often=3 many=4 together=; fi
  at_once=${at_once:-$tests} lives=${lives:-$often} rounds=${rounds:-$many}
  say "to start a process takes $took us here: $at_once tests at once, $lives lives of a node, $rounds rounds of latencies"
}

run_suite() {
  local chosen=()
  mkdir -p "$logs"
  # go test takes -run once, and the caller's is for the suites as they are.
  if [[ " $* " != *' -run'* ]]; then
    if [ -n "${STRATOS_KIND_BESIDE:-}" ]; then chosen=(-skip "$release_tests"); fi
    if [ -n "${STRATOS_KIND_IS_BESIDE:-}" ]; then
      packages+=(./suite)
      chosen=(-run "^Test(Flannel|Cilium|AWSNode)$|$release_tests")
    fi
  fi
  STRATOS_KIND_CLUSTER=$cluster STRATOS_KIND_STATE=$state STRATOS_KIND_LOGS=$logs STRATOS_KIND_REGISTRY=$registry \
    STRATOS_KIND_WEB_IMAGE=stratos-e2e/web:$(tag_of stratos-e2e/web) STRATOS_KIND_HELM=$bin/helm \
    STRATOS_KIND_AGENT_IMAGE=$registry:5000/agent:1 \
    STRATOS_KIND_AT_ONCE=$at_once STRATOS_KIND_LIVES=$lives STRATOS_KIND_ROUNDS=$rounds \
    STRATOS_KIND_DAEMON=$(if own_daemon; then cat "$daemon/docker.pid"; fi) \
    go tool -modfile="$root/go.tools.mod" gotestsum --format pkgname-and-test-fails --format-icons text \
    "${recorded[@]}" --packages "${packages[*]}" -- -p 1 -parallel 50 -count=1 -timeout 60m "${chosen[@]}" "$@"
}

# With a record, which make asks for, at most two failed tests are run once more.
recorded=()
if [ -n "${STRATOS_KIND_RECORD:-}" ]; then
  recorded=(--jsonfile "$STRATOS_KIND_RECORD" --rerun-fails=1 --rerun-fails-run-root-test --rerun-fails-max-failures 2
    --post-run-command "$root/bin/check rerun")
fi

# finish ends `all`, whatever has happened.
finish() {
  local result=$?
  trap - EXIT
  if [ -n "$beside" ]; then kill -TERM -- "-$beside" 2>/dev/null && wait "$beside" || true; fi
  if [ $result != 0 ] && [ -e "$state" ]; then collect_logs || true; fi
  cluster_down || true
  docker_down || true
  exit $result
}

# What `all` runs beside this cluster's suite: another suite, in a cluster of its own. Half of the
# machine's time is free while nodes boot and stop. It begins when this cluster is up, so that nothing
# is built twice at once, and in a process group, so that finish can end all of it. What it builds has
# less priority than this cluster; its containers are the daemon's and have the same.
beside=
begin_beside() {
  local other=${STRATOS_KIND_BESIDE:-}
  if [ -z "$other" ]; then return; fi
  beside_log=$(mktemp "$work/beside.XXXXXX")
  set -m
  STRATOS_KIND_SUITE=$other STRATOS_KIND_BESIDE= STRATOS_KIND_IS_BESIDE=1 STRATOS_KIND_LOGS= STRATOS_KIND_CLUSTER=$cluster-$other \
    STRATOS_KIND_RECORD=${STRATOS_KIND_RECORD:+$(dirname "$STRATOS_KIND_RECORD")/$other.jsonl} \
    nice -n 10 "$here/kind.sh" all "$@" >"$beside_log" 2>&1 </dev/null &
  beside=$!
  set +m
}

# end_beside waits for it, shows what it said, and returns its result.
end_beside() {
  if [ -z "$beside" ]; then return; fi
  local result=0
  wait "$beside" || result=$?
  beside=
  cat "$beside_log" >&2
  rm "$beside_log"
  return $result
}

# alone takes the cluster for this run of `all`, which removes it at both ends.
alone() {
  mkdir -p "$work/clusters"
  exec 7>"$work/clusters/$cluster.lock"
  flock -n 7 || die "another run of kind.sh all uses the cluster $cluster: STRATOS_KIND_CLUSTER names another one"
}

# clean_up removes what a run that was cut off has left of the cluster: its pools and pods would take part in the tests.
clean_up() {
  if [ -e "$state" ]; then
    say "removing what is left of cluster $cluster"
    docker_up
    cluster_down
  fi
}

# timed says how long a part took.
timed() {
  local began=$SECONDS
  "$@"
  say "$1: $((SECONDS - began)) s"
}

# In a function, so that bash has read all of it: whoever edits the file while it runs changes nothing.
main() {
  local command=${1:-}
  shift || true
  case $command in
    up) timed cluster_up ;;
    load) use_docker || die "no cluster: kind.sh up first"; timed load ;;
    install) use_docker || die "no cluster: kind.sh up first"; timed install_stratos ;;
    test) use_docker || die "no cluster: kind.sh up first"; cd "$here"; pace; run_suite "$@" ;;
    kubectl) kubectl "$@" ;;
    look) use_docker || die "no cluster: kind.sh up first"; look ;;
    logs) use_docker || die "no cluster: kind.sh up first"; collect_logs ;;
    down) if use_docker; then cluster_down; docker_down; else say "no Docker daemon runs: nothing to remove"; fi ;;
    try) try ;;
    all)
      # Before there is anything beside: the other suite is told.
      pace
      export STRATOS_KIND_AT_ONCE=$at_once STRATOS_KIND_LIVES=$lives STRATOS_KIND_ROUNDS=$rounds
      alone
      trap finish EXIT
      trap 'exit 130' INT TERM
      clean_up
      timed cluster_up
      timed load
      timed install_stratos
      if [ -n "$together" ]; then begin_beside "$@"; fi
      cd "$here"
      local failed=0
      timed run_suite "$@" || failed=1
      if [ -z "$together" ] && [ -n "${STRATOS_KIND_BESIDE:-}" ]; then
        if [ $failed != 0 ]; then collect_logs || true; fi
        cluster_down
        begin_beside "$@"
      fi
      timed end_beside || failed=1
      return $failed
      ;;
    *)
      sed -n 's/^#   \(kind.sh .*\)/\1/p' "${BASH_SOURCE[0]}" >&2
      exit 2
      ;;
  esac
}

main "$@"
exit
