# The node image: kindest/node where it can be pulled and the machine can run it; else one of our own, of Debian packages, Kubernetes built from its modules,
# and the files of kind's own base image, which its module contains.

# Packages of a node's root file system. bookworm's systemd is the last that starts on cgroup v1 as it is.
debian=bookworm
node_packages=systemd,systemd-sysv,dbus,conntrack,iptables,nftables,iproute2,ethtool,util-linux,mount,kmod,libseccomp2,pigz,e2fsprogs,bash,ca-certificates,curl,jq,procps,socat,ebtables,runc,containerd,containernetworking-plugins

# node_image prints the image's name, and makes it first where nobody can be asked for it.
node_image() {
  local name
  if [ -n "${KIND_NODE_IMAGE:-}" ]; then
    echo "$KIND_NODE_IMAGE"
    return
  fi
  if name=$(pulled_node_image); then
    echo "$name"
    return
  fi
  [ "$(id -u)" = 0 ] || die "the node image cannot be pulled, and only root can build one"
  name=stratos-e2e/node:$kubernetes-$(node_key)
  if ! docker image inspect "$name" >/dev/null 2>&1; then
    install_packages
    build_node_image "$name" >&2
  fi
  echo "$name"
}

# pulled_node_image: kind's, of the version that everything here is of. Its systemd does not start on cgroup v1.
pulled_node_image() {
  local name=kindest/node:$kubernetes
  if [ "$(docker info -f '{{.CgroupVersion}}')" = 1 ]; then return 1; fi
  if ! docker image inspect "$name" >/dev/null 2>&1; then
    say "pulling $name"
    timeout 600 docker pull -q "$name" >&2 </dev/null || return 1
  fi
  echo "$name"
}

module_folder() { (cd "$here" && static_go list -m -f '{{.Dir}}' "$1"); }

# node_key changes with everything that the image is made of.
node_key() {
  hash_of "$here/offline/nodeimage.sh" <(grep -E "$kind_module |client-go |netlink " "$here/go.mod") "$here/offline/minicni/main.go" "$here/offline/manifests/cni.yaml" "$here/offline/manifests/storage.yaml" \
    "$root/e2e/controlplane/node.mod" "$root/e2e/controlplane/go.mod"
}

build_node_image() { # name
  local folder
  folder=$(mktemp -d "$work/node.XXXXXX")
  say "building the node image $1; the first time takes minutes"
  base_files "$folder/root"
  kind_files "$folder/root"
  node_programs "$folder/root"
  component_images "$folder" "$folder/root"
  assemble_node "$1" "$folder"
  rm -rf "$folder"
}

# base_files: Debian's, kept as an archive, because they take the longest and change the least.
base_files() { # folder
  local archive=$work/rootfs-$debian-$(echo "$node_packages" | sha256sum | cut -c 1-10).tar
  mkdir -p "$1"
  if [ ! -e "$archive" ]; then
    say "fetching Debian $debian"
    debootstrap --variant=minbase --include="$node_packages" $debian "$1.base" >"$work/debootstrap.log" 2>&1 </dev/null || { tail -n 20 "$work/debootstrap.log" >&2; return 1; }
    (cd "$1.base" && rm -rf var/cache/apt/archives/*.deb var/lib/apt/lists/* usr/share/doc/* usr/share/man/* usr/share/locale/* var/log/*)
    tar -C "$1.base" -cf "$archive.next" .
    mv "$archive.next" "$archive"
    rm -rf "$1.base"
  fi
  tar -C "$1" -xf "$archive"
}

# kind_files lays kind's own files over it and repeats what its Dockerfile runs.
kind_files() { # root
  local units=$1/lib/systemd/system program
  cp -R --no-preserve=mode,ownership "$(module_folder $kind_module)/images/base/files/." "$1/"
  chmod 755 "$1"/usr/local/bin/* "$1/kind" "$1"/kind/bin "$1"/kind/bin/*
  # A node starts what kind wants and nothing else.
  rm -f "$units"/sysinit.target.wants/systemd-tmpfiles-setup.service "$units"/multi-user.target.wants/* "$1"/etc/systemd/system/*.wants/* \
    "$units"/local-fs.target.wants/* "$units"/sockets.target.wants/*udev* "$units"/sockets.target.wants/*initctl* "$units"/basic.target.wants/*
  echo ReadKMsg=no >>"$1/etc/systemd/journald.conf"
  [ -e "$1/sbin/init" ] || ln -s /usr/lib/systemd/systemd "$1/sbin/init"
  chroot "$1" systemctl --quiet enable kubelet.service containerd.service undo-mount-hacks.service
  chroot "$1" systemctl --quiet mask systemd-binfmt.service
  mkdir -p "$1/etc/kubernetes/manifests" "$1/opt/cni/bin" "$1/kind/manifests"
  : >"$1/etc/hostname"
  # Debian's containerd and plugins, where kind's files expect them.
  for program in containerd ctr containerd-shim-runc-v2; do ln -sf /usr/bin/$program "$1/usr/local/bin/$program"; done
  for program in host-local loopback ptp portmap; do ln -sf /usr/lib/cni/$program "$1/opt/cni/bin/$program"; done
  chroot "$1" ctr oci spec |
    jq '.hooks.createContainer[.hooks.createContainer | length] |= . + {"path": "/kind/bin/mount-product-files.sh"} | del(.process.rlimits)' >"$1/etc/containerd/cri-base.json"
  # Registries that a test names in files below certs.d, as newer versions read them without being told.
  printf '\n[plugins."io.containerd.grpc.v1.cri".registry]\n  config_path = "/etc/containerd/certs.d"\n' >>"$1/etc/containerd/config.toml"
  # The programs of pods cannot be given a better score than ours where root lacks the capability.
  if lacks_capabilities; then sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' "$1/etc/containerd/config.toml"; fi
}

node_programs() { # root
  local programs
  programs=$(controlplane build -node)
  install -m 755 "$programs/kubelet" "$programs/kubeadm" "$(controlplane build)/kubectl" "$1/usr/bin/"
  printf %s "$kubernetes" >"$1/kind/version"
  cp "$here/offline/manifests/cni.yaml" "$1/kind/manifests/default-cni.yaml"
  cp "$here/offline/manifests/storage.yaml" "$1/kind/manifests/default-storage.yaml"
}

# controlplane prints the folder of built programs.
controlplane() { (cd "$root/e2e/controlplane" && static_go run ./cmd/controlplane "$@" </dev/null); }

# component_images makes one image of one static program for each that kubeadm and the container runtime want, under their names, and saves them in one archive.
component_images() { # folder, root
  local images=$1/images control node etcd pause name
  control=$(controlplane build)
  node=$(controlplane build -node)
  mkdir -p "$images"
  etcd=$("$node/kubeadm" config images list --kubernetes-version "$kubernetes" 2>/dev/null | grep /etcd:)
  pause=$("$node/kubeadm" config images list --kubernetes-version "$kubernetes" 2>/dev/null | grep /pause:)
  references=()
  for name in kube-apiserver kube-controller-manager kube-scheduler; do
    program_image "registry.k8s.io/$name:$kubernetes" "$images/$name" "$control/$name" /usr/local/bin
  done
  program_image "$etcd" "$images/etcd" "$control/etcd" /usr/local/bin
  gcc -Os -static -DVERSION="$kubernetes" -o "$images/pause.bin" "$(cd "$root/e2e/controlplane" && static_go list -modfile=node.mod -m -f '{{.Dir}}' k8s.io/kubernetes)/build/pause/linux/pause.c"
  mkdir -p "$images/pause" && mv "$images/pause.bin" "$images/pause/pause"
  import_image "$pause" "$images/pause" /pause
  # The version that kind's configuration of containerd names.
  docker tag "$pause" registry.k8s.io/pause:3.10 && references+=(registry.k8s.io/pause:3.10)
  static_go build -C "$here" -trimpath -buildvcs=false -ldflags '-s -w' -o "$images/minicni.bin/minicni" ./offline/minicni
  program_image localhost/minicni:1 "$images/minicni" "$images/minicni.bin/minicni" /
  proxy_files "$images/kube-proxy" "$2"
  program_image "registry.k8s.io/kube-proxy:$kubernetes" "$images/kube-proxy" "$node/kube-proxy" /usr/local/bin
  docker save -o "$1/images.tar" "${references[@]}"
}

program_image() { # reference, folder, program, folder in the image
  mkdir -p "$2$4" "$2/tmp" "$2/etc"
  install -m 755 "$3" "$2$4/"
  import_image "$1" "$2" "${4%/}/$(basename "$3")"
}

import_image() { # reference, folder, entrypoint
  tar -C "$2" --owner=0 --group=0 -c . |
    docker import --change "ENTRYPOINT [\"$3\"]" --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' - "$1" >/dev/null
  references+=("$1")
}

# proxy_files: kube-proxy calls iptables, nft and conntrack, which come from the root file system with the libraries and extensions that they load.
proxy_files() { # folder, root
  local name library programs=(usr/sbin/xtables-nft-multi usr/sbin/xtables-legacy-multi usr/sbin/nft usr/sbin/conntrack)
  local extensions=usr/lib/$(uname -m)-linux-gnu/xtables
  mkdir -p "$1"/usr/{sbin,bin,lib,lib64,local/bin} "$1"/{etc,run,tmp,var/lib} "$1/$(dirname "$extensions")"
  for name in sbin bin lib lib64; do ln -s "usr/$name" "$1/$name"; done
  for name in "${programs[@]}"; do cp -a "$2/$name" "$1/usr/sbin/"; done
  for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -s xtables-nft-multi "$1/usr/sbin/$name"
    ln -s xtables-nft-multi "$1/usr/sbin/${name/tables/tables-nft}"
    ln -s xtables-legacy-multi "$1/usr/sbin/${name/tables/tables-legacy}"
  done
  cp -a "$2/$extensions" "$1/$extensions"
  cp "$2/etc/protocols" "$1/etc/" 2>/dev/null || true # not in every Debian base
  for name in "${programs[@]}" $(cd "$2" && ls "$extensions"/*.so); do
    chroot "$2" ldd "/$name" | grep -o '/[^ ]*'
  done | sort -u | while read -r library; do
    mkdir -p "$1$(dirname "$library")"
    cp -L "$2$library" "$1$library"
  done
}

# assemble_node does what `kind build node-image` does: a container of the base, the images imported into its containerd, committed.
assemble_node() { # name, folder
  local container=stratos-e2e-node-build-$$
  tar -C "$2/root" -c . | docker import - stratos-e2e/base:next >/dev/null
  # docker import takes no STOPSIGNAL.
  printf 'FROM stratos-e2e/base:next\nENV container=docker\nSTOPSIGNAL SIGRTMIN+3\nENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]\n' |
    DOCKER_BUILDKIT=0 docker build -q -t stratos-e2e/base:built - >/dev/null 2>"$2/build.log" || { cat "$2/build.log" >&2; return 1; }
  docker run -d --name "$container" --network none --privileged --cgroupns=private --entrypoint sleep stratos-e2e/base:built infinity >/dev/null
  docker exec -d "$container" containerd
  await 60 "containerd in the node image" docker exec "$container" ctr version
  docker exec -i "$container" ctr -n k8s.io images import --label=io.cri-containerd.pinned=pinned --all-platforms --no-unpack --digests - <"$2/images.tar" >/dev/null
  docker exec "$container" pkill -x containerd
  docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' --change 'CMD []' "$container" "$1" >/dev/null
  docker rm -f -v "$container" >/dev/null
  docker rmi -f stratos-e2e/base:built stratos-e2e/base:next >/dev/null
}
