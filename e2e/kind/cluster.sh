# The cluster and what is installed in it.

cluster_up() {
  local image
  docker_up
  raise_inotify
  mkdir -p "$state" "$bin"
  static_go build -C "$here" -trimpath -buildvcs=false -o "$bin/kind" $kind_module
  if "$bin/kind" get clusters -q | grep -qx "$cluster"; then
    say "cluster $cluster is up"
    return
  fi
  image=$(node_image)
  cluster_configuration "$image" >"$state/kind.yaml"
  if [ "$suite" = flannel ]; then image=$(flannel_node_image "$image"); fi
  say "creating cluster $cluster of $image"
  "$bin/kind" create cluster --name "$cluster" --image "$image" --config "$state/kind.yaml" --wait 180s --quiet </dev/null
  # All nodes share one machine, and a pool that boots would starve the API server and leases of a few seconds: what is always on goes first.
  docker update --cpu-shares 10240 "$cluster-control-plane" "$cluster-worker" >/dev/null
  kubectl wait --for=condition=Ready nodes --all --timeout=600s >/dev/null
}

# raise_inotify: kubelets and kube-proxies of many nodes share the machine's limits, and the default suffices for four.
raise_inotify() {
  local name least
  if [ "$(uname -s)" != Linux ] || [ "$(id -u)" != 0 ]; then return; fi
  while read -r name least; do
    if [ "$(sysctl -n "$name")" -lt "$least" ]; then sysctl -qw "$name=$least"; fi
  done <<<'fs.inotify.max_user_instances 1024
fs.inotify.max_user_watches 524288'
}

# cluster_configuration: the nodes that are always on see the Docker socket, by which Stratos makes, starts and stops the others.
cluster_configuration() { # node image
  local role
  printf 'kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n'
  for role in control-plane worker; do
    printf -- '- role: %s\n  extraMounts:\n  - {hostPath: "%s", containerPath: /var/run/docker.sock}\n' "$role" "$(docker_socket)"
  done
  printf 'kubeadmConfigPatches:\n'
  if [[ $1 == stratos-e2e/node:* ]]; then
    # Our node image has no CoreDNS: nothing here looks a Service up by its name.
    printf -- '- |\n  kind: InitConfiguration\n  metadata: {name: config}\n  skipPhases: [preflight, addon/coredns]\n'
  fi
  if [ "$(docker info -f '{{.CgroupVersion}}')" = 1 ]; then
    printf -- '- |\n  kind: KubeletConfiguration\n  metadata: {name: config}\n  failCgroupV1: false\n'
  fi
}

# kubectl is the machine's where it has one.
kubectl() {
  if type -P kubectl >/dev/null; then command kubectl "$@"; else "$(controlplane build)/kubectl" "$@"; fi
}

helm() {
  if [ ! -x "$bin/helm" ]; then static_go build -C "$root/e2e/helm" -trimpath -buildvcs=false -ldflags '-s -w' -o "$bin/helm" helm.sh/helm/v4/cmd/helm; fi
  "$bin/helm" "$@"
}

# load makes the images that the cluster runs and puts them onto the nodes that are always on.
load() {
  local other
  mkdir -p "$state"
  # One links while the other's image is taken apart by the nodes.
  program_load $certmanager_image "$root/e2e/certmanager" . certmanager &
  other=$!
  stratos_load
  registry_up
  if [ "$suite" != flannel ]; then agent_push; fi
  if [ "$suite" = cni ]; then program_load $cilium_image "$root/e2e/cilium" . cilium; fi
  wait "$other"
}

stratos_load() {
  local tag
  if base_images; then
    tag=built-$(git -C "$root" describe --always --dirty 2>/dev/null || echo tree)
    docker build -q -t "$stratos_image:$tag" --network host "$root" >/dev/null
    echo "$tag" >"$state/$(basename $stratos_image).tag"
    load_image "$stratos_image:$tag"
    return
  fi
  program_load $stratos_image "$root" ./cmd/stratos stratos
}

# base_images: whether those of the Dockerfile are here or can be pulled.
base_images() {
  local image
  # An own daemon exists only where there is no Docker; a machine that builds images has one.
  if own_daemon; then return 1; fi
  for image in $(sed -n 's/^ARG [A-Z]*_IMAGE=//p' "$root/Dockerfile"); do
    docker image inspect "$image" >/dev/null 2>&1 || timeout 300 docker pull -q "$image" >/dev/null 2>&1 </dev/null || return 1
  done
}

# program_load makes an image that holds one static program, like the Dockerfile's but for the base, and tags it by its content.
program_load() { # image, module, package, name
  local folder=$state/image-$4 tag
  rm -rf "$folder" && mkdir -p "$folder"
  static_go build -C "$2" -trimpath -buildvcs=false -ldflags '-s -w' -o "$folder/$4" "$3"
  tag=$(hash_of "$folder/$4")
  if ! docker image inspect "$1:$tag" >/dev/null 2>&1; then
    tar -C "$folder" --owner=0 --group=0 -c . | docker import --change 'USER 65532:65532' --change "ENTRYPOINT [\"/$4\"]" - "$1:$tag" >/dev/null
  fi
  rm -r "$folder"
  echo "$tag" >"$state/$(basename "$1").tag"
  load_image "$1:$tag"
}

# agent_push puts the image of a network agent into the registry, because the pool's nodes pull it.
agent_push() {
  local port
  program_image_only stratos-e2e/agent ./agent agent
  port=$(docker port "$registry" 5000/tcp | head -n 1)
  docker tag "stratos-e2e/agent:$(tag_of stratos-e2e/agent)" "$port/agent:1"
  docker push -q "$port/agent:1" >/dev/null
  docker rmi "$port/agent:1" >/dev/null
}

# load_image does it by ctr, which every node image has; `kind load` wants crictl.
load_image() { # image
  local node
  for node in "$cluster-control-plane" "$cluster-worker"; do
    if docker exec "$node" ctr -n k8s.io images ls -q | grep -qx "docker.io/$1"; then continue; fi
    docker save "$1" | docker exec -i "$node" ctr -n k8s.io images import --digests - >/dev/null
  done
}

tag_of() { cat "$state/$(basename "$1").tag"; }

# registry_up runs the suite's registry where the nodes find it by name, and writes what tells a node's containerd to speak plain HTTP to it.
registry_up() {
  local folder=$state/certs.d/$registry:5000
  mkdir -p "$folder"
  printf 'server = "http://%s:5000"\n\n[host."http://%s:5000"]\n  capabilities = ["pull", "resolve"]\n' "$registry" "$registry" >"$folder/hosts.toml"
  if [ "$(docker inspect -f '{{.State.Running}}' "$registry" 2>/dev/null)" = true ]; then return; fi
  docker rm -f -v "$registry" >/dev/null 2>&1 || true
  program_image_only stratos-e2e/registry ./registry registry
  program_image_only stratos-e2e/web ./web web
  docker run -d --name "$registry" --network kind -p 127.0.0.1::5000 "stratos-e2e/registry:$(tag_of stratos-e2e/registry)" >/dev/null
}

# program_image_only is program_load for an image that no node needs.
program_image_only() { # image, package, name
  local folder=$state/image-$3 tag
  rm -rf "$folder" && mkdir -p "$folder"
  static_go build -C "$here" -trimpath -buildvcs=false -ldflags '-s -w' -o "$folder/$3" "$2"
  tag=$(hash_of "$folder/$3")
  tar -C "$folder" --owner=0 --group=0 -c . | docker import --change 'USER 65532:65532' --change "ENTRYPOINT [\"/$3\"]" - "$1:$tag" >/dev/null
  rm -r "$folder"
  echo "$tag" >"$state/$(basename "$1").tag"
}

# install_stratos is what the README says, with the chart of this checkout and the images of this machine.
install_stratos() {
  install_certmanager
  if [ "$suite" = cni ]; then install_cilium; fi
  helm upgrade --install stratos "$root/charts/stratos" --namespace $namespace --create-namespace \
    -f "$root/charts/stratos/values-kind.yaml" --set clusterName="$cluster" \
    --set image.repository=$stratos_image --set image.tag="$(tag_of $stratos_image)" --wait --timeout 5m </dev/null
}

# install_certmanager: its definitions from its module, its controllers by e2e/certmanager, because nobody can be asked for its images.
install_certmanager() {
  local definitions
  definitions=$(cd "$root/e2e/certmanager" && static_go list -m -f '{{.Dir}}' github.com/cert-manager/cert-manager)/deploy/crds
  kubectl apply --server-side -f "$definitions" >/dev/null
  sed "s|IMAGE|$certmanager_image:$(tag_of $certmanager_image)|" "$here/manifests/certmanager.yaml" | kubectl apply --server-side -f - >/dev/null
  kubectl -n cert-manager rollout status deployment/cert-manager --timeout 180s >/dev/null
}

# install_cilium runs the part of Cilium's operator.
install_cilium() {
  sed "s|IMAGE|$cilium_image:$(tag_of $cilium_image)|" "$here/manifests/cilium.yaml" | kubectl apply --server-side -f - >/dev/null
  kubectl -n kube-system rollout status deployment/cilium-operator --timeout 180s >/dev/null
}

look() {
  kubectl get nodes -L stratos.sh/pool,stratos.sh/state -o wide || true
  kubectl get nodepools.stratos.sh || true
  kubectl get pods -A -o wide || true
  docker ps -a --filter "label=io.x-k8s.kind.cluster=$cluster" --format 'table {{.Names}}\t{{.Status}}' || true
}

# collect_logs keeps what a reader of a failed run needs. Nothing in it may fail.
collect_logs() {
  mkdir -p "$logs"
  look >"$logs/look.txt" 2>&1
  kubectl get events -A --sort-by=.lastTimestamp >"$logs/events.txt" 2>&1 || true
  kubectl get nodes,pods,nodepools.stratos.sh,kindnodeclasses.stratos.sh,leases -A -o yaml >"$logs/objects.yaml" 2>&1 || true
  docker logs "$registry" >"$logs/registry.log" 2>&1 || true
  "$bin/kind" export logs --name "$cluster" "$logs/nodes" >/dev/null 2>&1 || true
  if own_daemon; then cp "$daemon/dockerd.log" "$logs/" || true; fi
  say "logs are in $logs"
}

cluster_down() {
  local instances volumes=() id
  # First the nodes that Stratos runs on: else it launches another while the others go.
  docker rm -f -v "$cluster-worker" "$cluster-control-plane" >/dev/null 2>&1 || true
  # A request that Docker had taken by then may still make a container, so until none is left.
  while instances=$(docker ps -aq --no-trunc --filter "label=io.x-k8s.kind.cluster=$cluster") && [ -n "$instances" ]; do
    # The provider keeps an instance's changed tags in empty volumes; docs/kind.md tells why.
    for id in $instances; do
      mapfile -O ${#volumes[@]} -t volumes < <(docker volume ls -q --filter "label=kind.stratos.sh/tags-of=$id")
    done
    docker rm -f -v $instances >/dev/null 2>&1 || true # unquoted: one word each
    sleep 0.5
  done
  if [ -x "$bin/kind" ]; then "$bin/kind" delete cluster -q --name "$cluster" </dev/null || true; fi
  docker rm -f -v "$registry" >/dev/null 2>&1 || true
  if [ ${#volumes[@]} -gt 0 ]; then docker volume rm -f "${volumes[@]}" >/dev/null || true; fi
  rm -rf "$state"
}
