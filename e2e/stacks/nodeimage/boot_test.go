package nodeimage

import (
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/provider/userdata"
)

// boot has the systemd of the root folder boot it in namespaces of its own, without a network, and
// ends when it is powered off. The controllers of cgroups stay with the machine.
const boot = `
groups=$(mktemp -d)
mount -t cgroup2 none "$groups"
group=$(mktemp -d "$groups/stratos-boot-XXXXXX")
echo 0 >"$group/cgroup.procs"
unshare --pid --fork --kill-child --uts --ipc --net --cgroup --mount sh -euc '
	mount --bind "$0" "$0"
	mount -t proc proc "$0/proc"
	mount -t sysfs -o ro sysfs "$0/sys"
	mount -t cgroup2 none "$0/sys/fs/cgroup"
	mount -t tmpfs -o mode=755 tmpfs "$0/run"
	mount -t tmpfs -o mode=755 tmpfs "$0/dev"
	# Devices of its own: systemd changes owner and mode of the console.
	for device in null=3 zero=5 full=7 random=8 urandom=9 console=3; do
		mknod -m 666 "$0/dev/${device%=*}" c 1 "${device#*=}"
	done
	mkdir "$0/dev/pts" "$0/dev/shm"
	mount -t devpts -o newinstance,ptmxmode=666 devpts "$0/dev/pts"
	ln -s pts/ptmx "$0/dev/ptmx"
	ln -s /proc/self/fd "$0/dev/fd"
	exec chroot "$0" env -i container=stratos PATH=/usr/sbin:/usr/bin:/sbin:/bin /sbin/init
' "$0" || true # the first process of a container is killed when it powers off
echo 0 >"$groups/cgroup.procs"
find "$group" -depth -type d -exec rmdir {} +
umount "$groups"
rmdir "$groups"
`

// Files of the machine in which it writes what happened, and those that stand in for what it has no
// network for.
const (
	events = "/events"

	// standInKubelet exits as a kubelet does that has no configuration, or whose container runtime
	// does not answer. It leaves state files as a kubelet does, and says which it finds.
	standInKubelet = `#!/bin/sh
[ -e /var/lib/kubelet/config.yaml ] || exit 1
if [ ! -e /run/containerd/containerd.sock ]; then
	echo kubelet-exits >>/events
	touch /run/kubelet-exited
	exit 1
fi
for state in cpu memory; do
	file=/var/lib/kubelet/${state}_manager_state
	[ ! -e "$file" ] || echo "old-$state-state" >>/events
	echo state >"$file"
done
echo kubelet >>/events
touch /run/kubelet-started
exec sleep infinity
`
	standInKubeadm = `#!/bin/sh
set -eu
echo "$1" >>/events
mkdir -p /etc/kubernetes /var/lib/kubelet/pki
echo joined | tee /etc/kubernetes/kubelet.conf /var/lib/kubelet/pki/kubelet-client-current.pem \
	>/var/lib/kubelet/config.yaml
systemctl start kubelet
`
	standInCurl = "#!/bin/sh\necho word\n"

	// powerOff ends the boot when all its units are through.
	powerOff = `[Service]
ExecStart=/bin/sh -c 'until [ -e /run/kubelet-started ]; do sleep 0.1; done; \
	systemctl is-system-running --wait; systemctl poweroff'
[Install]
WantedBy=multi-user.target
`
	// afterKubelet holds a unit until the kubelet has started, and says which of them came first.
	afterKubelet = `[Service]
ExecStartPre=/bin/sh -c 'for i in $(seq 600); do [ -e /run/kubelet-started ] && break; sleep 0.1; done; \
	echo %N >>/events'
`
)

// An image with kubeadm's own packages.
const (
	// packagedKubelet is the unit of those packages (kubernetes/release v0.16.2).
	packagedKubelet = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
`
	// slowContainerd is up 5 s after it was started, or once a kubelet has exited for want of it.
	slowContainerd = `[Unit]
After=network.target local-fs.target

[Service]
Type=oneshot
RemainAfterExit=yes
RuntimeDirectory=containerd
ExecStart=/bin/sh -c 'for i in $(seq 50); do [ -e /run/kubelet-exited ] && break; sleep 0.1; done; \
	echo containerd >>/events; touch /run/containerd/containerd.sock'

[Install]
WantedBy=multi-user.target
`
	// kubeletOrder is the file of Stratos that orders the kubelet.
	kubeletOrder = "/etc/systemd/system/kubelet.service.d/stratos-order.conf"
)

// TestSecondBoot: a node image with cloud-init boots by the user data of the family Kubeadm. At
// the first boot it joins once the user's script has run. At the second boot nothing of that runs,
// and the kubelet starts, without its state files of the first, although cloud-config and
// cloud-final wait for it.
func TestSecondBoot(t *testing.T) {
	all := images(t)
	i := all[len(all)-1]
	for base := range distributions() {
		t.Run(base, func(t *testing.T) {
			m := newMachine(t, base, i)
			m.setChecksums(t, "")
			if out, err := m.run([]string{folderMirror}, "sh", "/node-image/install.sh"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			m.launch(t)
			m.checkBoot(t, "first", "script", "join", "kubelet")
			m.delayCloudInit(t)
			m.checkBoot(t, "second", "kubelet", "cloud-config", "cloud-final")
		})
	}
}

// TestSecondBootOfPackages: the unit of kubeadm's packages does not wait for containerd. With the
// file of Stratos the kubelet does, and starts once. Without that file it exits, and comes up 10 s
// later.
func TestSecondBootOfPackages(t *testing.T) {
	all := images(t)
	i := all[len(all)-1]
	for base := range distributions() {
		t.Run(base, func(t *testing.T) {
			m := machine{root: newRoot(t, base, i)}
			m.write(t, "/lib/systemd/system/kubelet.service", packagedKubelet, 0o644)
			m.write(t, "/lib/systemd/system/containerd.service", slowContainerd, 0o644)
			m.write(t, "/usr/bin/kubelet", "#!/bin/sh\nexec /usr/local/bin/kubelet\n", 0o755)
			if _, err := m.run(nil, "systemctl", "enable", "containerd.service", "kubelet.service"); err != nil {
				t.Fatal(err)
			}
			m.launch(t)
			m.checkBoot(t, "first", "containerd", "script", "join", "kubelet")
			m.delayCloudInit(t)
			m.checkBoot(t, "second", "containerd", "kubelet", "cloud-config", "cloud-final")
			if err := os.Remove(filepath.Join(m.root, kubeletOrder)); err != nil {
				t.Fatal(err)
			}
			m.checkBoot(t, "third, without the file", "kubelet-exits", "containerd", "kubelet", "cloud-config", "cloud-final")
		})
	}
}

// checkBoot boots the machine and wants these events of the boot.
func (m machine) checkBoot(t *testing.T, which string, want ...string) {
	t.Helper()
	m.write(t, events, "", 0o644)
	m.boot(t)
	if diff := cmp.Diff(want, strings.Fields(readFile(t, filepath.Join(m.root, events)))); diff != "" {
		t.Errorf("the %s boot (-want +got):\n%s", which, diff)
	}
}

// delayCloudInit has cloud-init's last two stages wait for the kubelet.
func (m machine) delayCloudInit(t *testing.T) {
	t.Helper()
	for _, unit := range []string{"cloud-config", "cloud-final"} {
		m.write(t, "/etc/systemd/system/"+unit+".service.d/after-kubelet.conf", afterKubelet, 0o644)
	}
}

// launch gives the machine its user data and the stand-ins.
func (m machine) launch(t *testing.T) {
	t.Helper()
	cluster := userdata.Cluster{Endpoint: "https://192.0.2.1:6443",
		CertificateAuthority: base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))}
	const script = "#!/bin/sh\necho script >>/events\n"
	text, err := userdata.Kubeadm(cluster, userdata.Kubelet{}, userdata.PlaceholderToken, script)
	if err != nil {
		t.Fatal(err)
	}
	const seed = "/var/lib/cloud/seed/nocloud/"
	m.write(t, seed+"user-data", text, 0o600)
	m.write(t, seed+"meta-data", "instance-id: i-0123456789abcdef0\n", 0o600)
	m.write(t, "/etc/cloud/cloud.cfg.d/99-test.cfg", "datasource_list: [NoCloud]\nnetwork: {config: disabled}\n", 0o644)
	m.write(t, "/usr/local/bin/kubelet", standInKubelet, 0o755)
	m.write(t, "/usr/local/bin/kubeadm", standInKubeadm, 0o755)
	m.write(t, "/usr/local/bin/curl", standInCurl, 0o755)
	m.write(t, "/etc/systemd/system/power-off.service", powerOff, 0o644)
	if _, err := m.run(nil, "systemctl", "enable", "power-off.service"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(m.root, "var", "log", "journal"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// boot boots the machine once, until it has powered itself off.
func (m machine) boot(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	namespaces := []string{"--mount", "--pid", "--fork", "--kill-child"} // what is left ends with the first process
	out, err := exec.CommandContext(ctx, "unshare", append(namespaces, "sh", "-euc", boot, m.root)...).CombinedOutput()
	if err != nil {
		journal, _ := m.run(nil, "journalctl", "--directory=/var/log/journal", "--lines=300", "--no-pager")
		t.Fatalf("%v\n%s\n%s", err, out, journal)
	}
}
