# The cluster whose network is flannel: its node image is the other one with flannel's own images and
# manifest in it. kind applies the manifest as it applies that of its own network.

flannel=$root/e2e/flannel

# flannel_node_image prints the image's name, and makes it first where it is not there.
flannel_node_image() { # node image
  local name key
  key=$(hash_of "$here/flannel.sh" "$flannel/go.mod" "$flannel/plugin/go.mod" <(docker image inspect -f '{{.Id}}' "$1"))
  name=stratos-e2e/flannel-node:$kubernetes-$key
  if ! docker image inspect "$name" >/dev/null 2>&1; then
    timed build_flannel_node "$name" "$1" >&2
  fi
  echo "$name"
}

build_flannel_node() { # name, node image
  local folder container=stratos-e2e-flannel-build-$$ manifest
  folder=$(mktemp -d "$work/flannel.XXXXXX")
  say "building the node image $1"
  flannel_programs "$folder"
  manifest=$folder/source/Documentation/kube-flannel.yml
  flannel_images "$folder" "$manifest" "$2"
  docker run -d --name "$container" --network none --privileged --cgroupns=private --entrypoint sleep \
    "$2" infinity >/dev/null
  docker exec -d "$container" containerd
  await 60 "containerd in the node image" docker exec "$container" ctr version
  docker exec -i "$container" ctr -n k8s.io images import --label=io.cri-containerd.pinned=pinned \
    --all-platforms --no-unpack --digests - <"$folder/images.tar" >/dev/null
  docker exec "$container" pkill -x containerd
  docker cp -q "$folder/bin/bridge" "$container:/opt/cni/bin/bridge"
  # The plugin is older than the version of the configuration in the manifest.
  sed -i 's/"cniVersion": "1.0.0"/"cniVersion": "0.4.0"/' "$manifest"
  # By default each agent runs a dozen iptables every five seconds, which adds up where processes are slow to start.
  sed -i 's/^\( *\)- --kube-subnet-mgr$/&\n\1- --iptables-resync=60/' "$manifest"
  docker cp -q "$manifest" "$container:/kind/manifests/default-cni.yaml"
  docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' --change 'CMD []' \
    "$container" "$1" >/dev/null
  docker rm -f -v "$container" >/dev/null
  rm -rf "$folder"
}

# flannel_programs builds flanneld and its installer from flannel's module, and the CNI plugins that it
# calls from the last version of the plugins that has its own.
flannel_programs() { # folder
  mkdir -p "$1/bin"
  flannel_source "$1/source"
  cp "$flannel/go.mod" "$1/build.mod"
  cp "$flannel/go.sum" "$1/build.sum"
  go mod edit -replace="github.com/flannel-io/flannel=$1/source" "$1/build.mod"
  static_go build -C "$flannel" -modfile "$1/build.mod" -trimpath -buildvcs=false -ldflags '-s -w' \
    -o "$1/bin/flanneld" github.com/flannel-io/flannel
  static_go build -C "$flannel" -modfile "$1/build.mod" -trimpath -buildvcs=false -ldflags '-s -w' \
    -o "$1/bin/install-conf" github.com/flannel-io/flannel/cmd/install_conf
  static_go build -C "$flannel/plugin" -trimpath -buildvcs=false -ldflags '-s -w' -o "$1/bin/" \
    github.com/containernetworking/plugins/plugins/main/bridge \
    github.com/containernetworking/plugins/plugins/meta/flannel
}

# flannel_source copies flannel's module. Its backend for UDP needs cgo on amd64; here it is left out,
# as flannel itself does on other architectures.
flannel_source() { # folder
  local udp=$1/pkg/backend/udp module
  (cd "$flannel" && static_go mod download github.com/flannel-io/flannel) # a module that is not here has no folder
  module=$(cd "$flannel" && static_go list -m -f '{{.Dir}}' github.com/flannel-io/flannel)
  cp -R --no-preserve=mode,ownership "$module" "$1"
  rm "$udp"/*_amd64.*
  sed -i -e '/^\/\/go:build/d' -e '/^\/\/ +build/d' "$udp/udp.go" "$udp/udp_network.go"
}

# flannel_images makes the two images under the names that the manifest has, and saves them in one
# archive.
flannel_images() { # folder, manifest, node image
  local agent plugin name
  agent=$(sed -n 's|.*image: *\(.*/flannel:.*\)|\1|p' "$2" | head -n 1)
  plugin=$(sed -n 's|.*image: *\(.*/flannel-cni-plugin:.*\)|\1|p' "$2" | head -n 1)
  references=()
  mkdir -p "$1/agent/opt/bin" "$1/agent/tmp" "$1/agent/run" "$1/plugin"
  node_files "$3" "$1/agent" usr/sbin/xtables-nft-multi usr/sbin/nft usr/bin/sh 'usr/lib/*/xtables/*.so'
  for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -s xtables-nft-multi "$1/agent/usr/sbin/$name"
  done
  install -m 755 "$1/bin/flanneld" "$1/bin/install-conf" "$1/agent/opt/bin/"
  import_image "$agent" "$1/agent" /opt/bin/flanneld
  node_files "$3" "$1/plugin" usr/bin/cp
  install -m 755 "$1/bin/flannel" "$1/plugin/flannel"
  import_image "$plugin" "$1/plugin" /usr/bin/cp
  docker save -o "$1/images.tar" "${references[@]}"
}

# node_files copies programs of a node image, with the libraries that they load.
node_files() { # node image, folder, pattern...
  docker run --rm --network none --entrypoint bash "$1" -c '
    cd / && for file in $*; do
      echo "$file"
      ldd "$file" | sed -n "s|^.*[[:space:]]/\([^ ]*\) (0x.*|\1|p"
    done | sort -u | tar -chf - -T -' bash "${@:3}" | tar -C "$2" -xf -
}
