package suite

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/e2e/kind/cluster"
	"github.com/stratos-sh/stratos/provider/userdata"
)

const (
	cpuState    = "/var/lib/kubelet/cpu_manager_state"
	memoryState = "/var/lib/kubelet/memory_manager_state"
	removeState = "/etc/tmpfiles.d/stratos-kubelet-state.conf"
	kept        = "/root/kept" // what the small type has left, for a later boot
)

// What the kubelet says before it exits.
const (
	otherCPUs   = "current set of available CPUs"
	otherMemory = "the expected machine state is different from the real one"
)

// playSmallType shows the kubelet a machine with one CPU and half of the memory, as long as
// /etc/small-type is there.
const playSmallType = `#!/bin/sh
set -eu
cpus=/sys/devices/system/cpu/online memory=/sys/devices/system/node/node0/meminfo
if [ ! -e /etc/small-type ] || [ -e /run/small-type ]; then exit 0; fi
mkdir /run/small-type
echo 0 >/run/small-type/cpus
awk '$3 == "MemTotal:" { $4 = int($4 / 2) } { print }' $memory >/run/small-type/memory
mount --bind /run/small-type/cpus $cpus
mount --bind /run/small-type/memory $memory
`

// TestStateFilesOfAnotherType is a machine that joins by the user data of the family Kubeadm, with
// the static policies of CPUs and memory, and comes up as another type. Real kubelets wrote the
// state files that the other one refuses, and systemd-tmpfiles reads the file that the user data
// wrote. The node image switches it off, because kind's nodes want none of Debian's files.
func TestStateFilesOfAnotherType(t *testing.T) {
	undisturbed(t)
	l := cluster.New(t)
	token, revoke := launchToken(t, l)
	const name = "stratos-another-type"
	own := corev1.Taint{Key: "example.com/team", Value: "b", Effect: corev1.TaintEffectNoSchedule}
	standby := corev1.Taint{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule}
	text, err := userdata.Kubeadm(publishedCluster(t, l), userdata.Kubelet{
		Taints: []corev1.Taint{own, standby},
		ExtraArgs: []string{"--cpu-manager-policy=static", "--memory-manager-policy=Static",
			"--kube-reserved=cpu=100m,memory=100Mi", "--eviction-hard=memory.available<100Mi", "--reserved-memory=0:memory=200Mi"},
	}, token.String(), "")
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, l, name)
	m.write(t, "/usr/local/sbin/play-small-type", playSmallType)
	m.write(t, "/etc/small-type", "")
	m.write(t, "/etc/systemd/system/kubelet.service.d/small-type.conf", "[Service]\nExecStartPre=/usr/local/sbin/play-small-type\n")
	m.boot(t, text)
	m.shell(t, "systemctl --quiet add-wants sysinit.target systemd-tmpfiles-setup.service")
	awaitReady(t, l, name, time.Time{})
	m.shell(t, "systemd-tmpfiles --remove "+removeState) // without --boot the files of a running kubelet stay
	small := m.managers(t)
	m.shell(t, "rm /etc/small-type; mkdir "+kept+"; cp -p "+cpuState+" "+memoryState+" "+kept+"; mv "+removeState+" "+kept)

	m.restart(t)
	m.awaitExit(t, otherCPUs)
	m.shell(t, "rm "+cpuState) // as Bottlerocket does
	m.awaitExit(t, otherMemory)

	m.shell(t, "cp -p "+kept+"/*_state /var/lib/kubelet; mv "+kept+"/*.conf "+removeState)
	since := m.restart(t)
	m.awaitHealth(t)
	n := awaitReady(t, l, name, since)
	if large := m.managers(t); large.CPUs == small.CPUs || large.Memory <= small.Memory {
		t.Errorf("the kubelet manages %+v, and did so as the smaller type: %+v", large, small)
	}
	servesAPod(t, l, n, own, revoke)
}

// shell runs a script in the machine.
func (m machine) shell(t *testing.T, script string) string {
	t.Helper()
	return cluster.MustDocker(t, "exec", m.name, "sh", "-euc", script)
}

// restart stops the machine, starts it, and returns when.
func (m machine) restart(t *testing.T) time.Time {
	t.Helper()
	cluster.MustDocker(t, "stop", m.name)
	began := time.Now().Truncate(time.Second)
	cluster.MustDocker(t, "start", m.name)
	return began
}

// hasExited reports whether the kubelet has ended for that reason since the machine came up, which
// empties the journal.
func (m machine) hasExited(ctx context.Context, reason string) (bool, error) {
	journal, err := cluster.Docker(ctx, "exec", m.name, "journalctl", "--unit=kubelet", "--no-pager", "--output=cat")
	_, after, found := strings.Cut(journal, reason)
	return found && strings.Contains(after, "Main process exited, code=exited, status=1/FAILURE"), err
}

func (m machine) awaitExit(t *testing.T, reason string) {
	t.Helper()
	cluster.Await(t, "the kubelet exits: "+reason, func(ctx context.Context) (bool, error) {
		return m.hasExited(ctx, reason)
	})
}

// awaitHealth waits until the kubelet answers, and for nothing once it has refused a state file.
func (m machine) awaitHealth(t *testing.T) {
	t.Helper()
	cluster.Await(t, "the kubelet answers", func(ctx context.Context) (bool, error) {
		for _, reason := range []string{otherCPUs, otherMemory} {
			if exited, _ := m.hasExited(ctx, reason); exited {
				t.Fatalf("the kubelet exits: %s", reason)
			}
		}
		_, err := cluster.Docker(ctx, "exec", m.name, "curl", "--fail", "--silent", "http://localhost:10248/healthz")
		return err == nil, err
	})
}

// managed is what the kubelet's state files say of the machine.
type managed struct {
	CPUs   string
	Memory uint64
}

// managers reads the state files of a kubelet with both static policies.
func (m machine) managers(t *testing.T) managed {
	t.Helper()
	var cpu struct{ PolicyName, DefaultCPUSet string }
	var memory struct {
		PolicyName   string
		MachineState map[string]struct {
			MemoryMap map[string]struct{ Total uint64 }
		}
	}
	err := errors.Join(json.Unmarshal([]byte(m.shell(t, "cat "+cpuState)), &cpu),
		json.Unmarshal([]byte(m.shell(t, "cat "+memoryState)), &memory))
	found := managed{cpu.DefaultCPUSet, memory.MachineState["0"].MemoryMap["memory"].Total}
	if err != nil || cpu.PolicyName != "static" || memory.PolicyName != "Static" || found.CPUs == "" || found.Memory == 0 {
		t.Fatalf("policies %q and %q, %+v, error %v", cpu.PolicyName, memory.PolicyName, found, err)
	}
	return found
}
