# Where things are; read by kind.sh before the other parts. Every name can be set from outside where it says so.

# Which tests run, and what they need: "" is the suite, "flannel" has flannel as the cluster's network,
# "cni" has other network agents beside the cluster's own network.
suite=${STRATOS_KIND_SUITE:-}
case $suite in
  '') packages=(./cluster ./offline/boundedrunc ./offline/minicni ./registry ./suite ./web) ;;
  flannel | cni) packages=("./$suite") ;;
  *) echo "STRATOS_KIND_SUITE: \"$suite\" is no suite: flannel, cni or nothing" >&2; exit 2 ;;
esac

# The tests that change the release, which others need as it is. Where another suite runs beside, they run in its cluster,
# after its own tests.
release_tests='^Test(Pages|StaticPodScheduler|UninstallLeavesNothing|UninstallWithLivePools)$'

# Several clusters can live beside each other; each has its own state.
cluster=${STRATOS_KIND_CLUSTER:-stratos-e2e${suite:+-$suite}}
if ! [[ $cluster =~ ^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$ ]]; then
  echo "STRATOS_KIND_CLUSTER: \"$cluster\" is no cluster name: at most 40 lower-case letters, digits and dashes, no dash at an end" >&2
  exit 2
fi

root=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/stratos
work=$cache/kind
# What belongs to this cluster alone: kubeconfig, values, logs.
state=$work/clusters/$cluster
bin=$work/bin
daemon=$work/daemon
logs=${STRATOS_KIND_LOGS:-$root/dist/kind/$cluster}

export KUBECONFIG=$state/kubeconfig

# The version of everything that runs on a node; node.mod builds it.
kubernetes=$(sed -n 's|^\t*k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' "$root/e2e/controlplane/node.mod" | head -n 1)
kind_module=sigs.k8s.io/kind
registry=$cluster-registry
namespace=stratos-system
stratos_image=stratos-e2e/stratos
certmanager_image=stratos-e2e/certmanager
cilium_image=stratos-e2e/cilium

say() { echo "kind.sh: $*" >&2; }

die() { say "$@"; exit 1; }

# go for the modules of this repository, whatever the caller's environment says; its programs run in containers, so they are static.
static_go() { GOFLAGS=-mod=readonly GOWORK=off CGO_ENABLED=0 go "$@"; }

# await SECONDS WHAT COMMAND...: asks until the command succeeds.
await() {
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    if [ $SECONDS -ge $until ]; then die "waited too long for $what: $*"; fi
    sleep 0.2
  done
}

# hash_of FILE...: ten characters that change with the files' contents.
hash_of() { cat "$@" | sha256sum | cut -c 1-10; }
