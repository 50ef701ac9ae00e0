#!/bin/sh
# Makes a Kubernetes node of Ubuntu 24.04 or Debian 12. Runs as root; a second run changes nothing.
# NODE_IMAGE_MIRROR is where programs come from in place of their own hosts: an address or a folder,
# with the host as its first level, such as dl.k8s.io/release/v1.2.3/bin/linux/amd64/kubelet.
set -eu
umask 022
here=$(cd "$(dirname "$0")" && pwd)
mirror=${NODE_IMAGE_MIRROR:-}
architecture=$(dpkg --print-architecture)

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

check_machine() {
	[ "$(id -u)" = 0 ] || fail "must run as root"
	# shellcheck source=/dev/null
	base=$(. /etc/os-release && echo "$ID-$VERSION_ID")
	case $base in
	ubuntu-24.04 | debian-12) ;;
	*) fail "the base $base must be ubuntu-24.04 or debian-12" ;;
	esac
	case $architecture in
	amd64 | arm64) ;;
	*) fail "the architecture $architecture must be amd64 or arm64" ;;
	esac
}

# All are looked at before the first is installed.
check_checksums() {
	while read -r name version of sum address; do
		[ "$of" = "$architecture" ] || continue
		echo "$sum" | grep -Eqx '[0-9a-f]{64}' ||
			fail "programs.txt: the checksum of $name $version for $architecture is \"$sum\" and" \
				"must be the SHA-256 of $address"
	done <"$here/programs.txt"
}

install_packages() {
	# iptables and ethtool are for kube-proxy and the network agent, unzip is for the AWS CLI.
	packages="ca-certificates curl ethtool iproute2 iptables kmod mount unzip util-linux"
	for package in $packages; do
		if ! dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed; then
			apt-get --quiet update
			# shellcheck disable=SC2086 # a list of words
			DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes install --no-install-recommends $packages
			return
		fi
	done
}

fetch() {
	curl --fail --silent --show-error --location --proto =https --retry 5 --output "$2" "$1"
}

# download NAME writes the program's file to $work/NAME once its checksum is right.
download() {
	line=$(grep "^$1 [^ ]* $architecture " "$here/programs.txt") || fail "programs.txt has no $1 for $architecture"
	sum=$(echo "$line" | cut -d ' ' -f 4)
	address=$(echo "$line" | cut -d ' ' -f 5)
	case $mirror in
	"") fetch "$address" "$work/$1" ;;
	https://*) fetch "${mirror%/}/${address#https://}" "$work/$1" ;;
	*) cp "$mirror/${address#https://}" "$work/$1" ;;
	esac || fail "$1 cannot be had${mirror:+ from the mirror $mirror}: $address"
	found=$(sha256sum "$work/$1" | cut -d ' ' -f 1)
	[ "$found" = "$sum" ] || fail "$1 from $address has the checksum $found, and $sum in programs.txt"
}

# put FILE FOLDER installs a program and leaves one that is the same as it is.
put() {
	install -C -D -m 0755 "$1" "$2/${1##*/}"
}

install_programs() {
	for name in runc kubelet kubeadm ecr-credential-provider; do
		download "$name"
		put "$work/$name" /usr/local/bin
	done

	download containerd
	mkdir "$work/unpacked"
	tar -xzf "$work/containerd" -C "$work/unpacked"
	for name in containerd containerd-shim-runc-v2 ctr; do
		put "$work/unpacked/bin/$name" /usr/local/bin
	done

	# Those that containerd and the network agent call.
	download cni-plugins
	mkdir "$work/cni"
	tar -xzf "$work/cni-plugins" -C "$work/cni"
	for name in loopback host-local portmap bandwidth; do
		put "$work/cni/$name" /opt/cni/bin
	done

	# Cluster API's provider keeps the user data of its machines in Secrets Manager and reads it by `aws`.
	download aws-cli
	unzip -q "$work/aws-cli" -d "$work"
	rm -rf /usr/local/aws-cli
	cp -a "$work/aws/dist" /usr/local/aws-cli
	ln -sfn ../aws-cli/aws /usr/local/bin/aws
}

# The files below root/ are those of the machine, but for the name of the sandbox image, which is
# that of kubeadm.
install_files() {
	kubernetes=$(grep "^kubeadm [^ ]* $architecture " "$here/programs.txt" | cut -d ' ' -f 2)
	pause=$(kubeadm config images list --kubernetes-version "$kubernetes" | grep '/pause:')
	(cd "$here/root" && find . -type f) | while read -r file; do
		sed "s|@PAUSE@|$pause|" "$here/root/$file" >"$work/file"
		install -C -D -m 0644 "$work/file" "/$file"
	done
}

configure() {
	if grep -Eq '^[^#].*[[:space:]]swap[[:space:]]' /etc/fstab 2>/dev/null; then
		sed -i -E '/^[^#].*[[:space:]]swap[[:space:]]/d' /etc/fstab
	fi
	systemctl enable containerd.service kubelet.service
	# A node that starts for a pod must not wait for upgrades: they come with the next node image.
	systemctl mask swap.target apt-daily.timer apt-daily-upgrade.timer
	if [ -d /run/systemd/system ]; then
		swapoff -a
		systemctl daemon-reload
		systemctl restart systemd-modules-load.service systemd-sysctl.service
	fi
}

check_machine
check_checksums
install_packages
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install_programs
install_files
configure
