#!/bin/sh
# Pulls the images of kubeadm and of the addons into containerd. Runs as root after install.sh.
# NODE_IMAGE_REGION is the AWS region. Images of ECR are pulled where NODE_IMAGE_ECR is set, because
# the machine needs an instance profile for them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
region=${NODE_IMAGE_REGION:?must be an AWS region}
ecr=${NODE_IMAGE_ECR:-}
architecture=$(dpkg --print-architecture)

images() {
	kubernetes=$(grep "^kubeadm [^ ]* $architecture " "$here/programs.txt" | cut -d ' ' -f 2)
	kubeadm config images list --kubernetes-version "$kubernetes"
	sed "/^#/d; s/@REGION@/$region/" "$here/images.txt"
}

# pull IMAGE pulls into the namespace of Kubernetes, in which the kubelet looks.
pull() {
	case $1 in
	*.dkr.ecr.*)
		if [ -z "$ecr" ]; then
			echo "pull.sh: $1 is left to the kubelet: there is no instance profile" >&2
			return
		fi
		ctr --namespace k8s.io images pull --user "AWS:$(aws ecr get-login-password --region "$region")" "$1"
		;;
	*) ctr --namespace k8s.io images pull "$1" ;;
	esac
}

booted() {
	[ -d /run/systemd/system ]
}

if booted; then
	systemctl start containerd.service
fi
list=$(mktemp)
images >"$list"
while read -r image; do
	pull "$image" </dev/null >/dev/null
done <"$list"
rm "$list"
if booted; then
	systemctl stop containerd.service
fi
