package webhook

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPowersOff(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want bool
	}{
		"poweroff at the end":                {"#!/bin/bash\n/etc/eks/bootstrap.sh x\npoweroff\n", true},
		"poweroff by its path":               {"#!/bin/bash\n/usr/sbin/poweroff", true},
		"poweroff after a condition":         {"#!/bin/bash\nuntil ready; do sleep 5; done && poweroff", true},
		"poweroff in a string":               {"#!/bin/bash\nnohup sh -c 'sleep 30; poweroff' &", true},
		"poweroff in a substitution":         {"#!/bin/bash\nout=$(sudo poweroff)", true},
		"shutdown -h":                        {"#!/bin/bash\nshutdown -h now", true},
		"shutdown in five minutes":           {"#!/bin/bash\nshutdown +5 bye", true},
		"halt":                               {"#!/bin/bash\nhalt -p", true},
		"systemctl poweroff":                 {"#!/bin/bash\nsystemctl --no-block poweroff", true},
		"systemctl start poweroff.target":    {"#!/bin/bash\nsystemctl start poweroff.target", true},
		"init 0":                             {"#!/bin/bash\ninit 0", true},
		"telinit by its path":                {"#!/bin/bash\n/sbin/telinit 0", true},
		"a systemd unit":                     {"#!/bin/bash\ncat >/etc/systemd/system/off.service <<EOT\n[Service]\nExecStart=/sbin/poweroff\nEOT", true},
		"cloud-init's power_state":           {"#cloud-config\npower_state:\n  mode: poweroff\n  delay: now\n", true},
		"cloud-init's runcmd, as a list":     {"#cloud-config\nruncmd:\n- [ poweroff, -f ]\n", true},
		"cloud-init's runcmd, as a line":     {"#cloud-config\nruncmd:\n- shutdown -h now\n", true},
		"EC2's own API":                      {"#!/bin/bash\naws ec2 stop-instances --instance-ids $ID", true},
		"a hash within a word":               {"#!/bin/bash\necho a#b; poweroff", true},
		"nothing":                            {"", false},
		"only bootstrap":                     {"#!/bin/bash\n/etc/eks/bootstrap.sh x\n# ... warmup script\n", false},
		"in a comment":                       {"#!/bin/bash\n# poweroff\n", false},
		"in a comment after a command":       {"#!/bin/bash\nsleep 1 # then poweroff\n", false},
		"a reboot":                           {"#!/bin/bash\nreboot", false},
		"shutdown -r":                        {"#!/bin/bash\nshutdown -r now", false},
		"a shutdown that is cancelled":       {"#!/bin/bash\nshutdown -c", false},
		"cloud-init reboots":                 {"#cloud-config\npower_state:\n  mode: reboot\n", false},
		"init of another level":              {"#!/bin/bash\ninit 3", false},
		"git init":                           {"#!/bin/bash\ngit init", false},
		"systemctl of something else":        {"#!/bin/bash\nsystemctl enable --now kubelet", false},
		"a file of that name":                {"#!/bin/bash\ntouch /var/lib/poweroff.done", false},
		"Bottlerocket":                       {"[settings.kubernetes]\ncluster-name = \"poweroff\"\n", false},
		"nodeadm's configuration":            {"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}\n", false},
		"words that only begin like program": {"#!/bin/bash\nhalted=1 powerofff", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := powersOff(c.data); got != c.want {
				t.Errorf("powers off: %v, want %v", got, c.want)
			}
		})
	}
}

func TestRegisters(t *testing.T) {
	taint := corev1.Taint{Key: "example.com/agent", Value: "true", Effect: corev1.TaintEffectNoSchedule}
	bare := corev1.Taint{Key: "example.com/agent", Effect: corev1.TaintEffectNoSchedule}
	for name, c := range map[string]struct {
		data  string
		taint corev1.Taint
		want  registration
	}{
		"the kubelet's flag": {"--register-with-taints=example.com/agent=true:NoSchedule", taint, registered},
		"one of several": {"'--register-with-taints=a=b:NoExecute,example.com/agent=true:NoSchedule'", taint,
			registered},
		"in two words":        {`--register-with-taints "example.com/agent=true:NoSchedule"`, taint, registered},
		"without a value":     {"--register-with-taints=example.com/agent:NoSchedule", bare, registered},
		"with an empty value": {"--register-with-taints=example.com/agent=:NoSchedule", bare, registered},
		"in a variable": {"ARGS=\"--register-with-taints=example.com/agent=true:NoSchedule\"", taint,
			registered},
		"nodeadm's fields":     {"registerWithTaints:\n- key: example.com/agent\n  value: \"true\"\n  effect: NoSchedule\n", taint, registered},
		"Bottlerocket's table": {"[settings.kubernetes.node-taints]\n\"example.com/agent\" = [\"true:NoSchedule\"]\n", taint, registered},
		"another effect": {"--register-with-taints=example.com/agent=true:NoExecute", taint,
			registeredOtherwise},
		"another value": {"--register-with-taints=example.com/agent=yes:NoSchedule", taint,
			registeredOtherwise},
		"a value where there is none": {"--register-with-taints=example.com/agent=true:NoSchedule", bare,
			registeredOtherwise},
		"a key that only begins like it": {"--register-with-taints=example.com/agent-2=true:NoSchedule", taint,
			registeredOtherwise},
		"only in a comment": {"#!/bin/bash\n# example.com/agent=true:NoSchedule\n", taint, notRegistered},
		"nowhere":           {"#!/bin/bash\npoweroff\n", taint, notRegistered},
	} {
		t.Run(name, func(t *testing.T) {
			if got := registers(c.data, c.taint); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestMemoryByName(t *testing.T) {
	for name, want := range map[string]float64{
		"m5.large": 8, "m5.xlarge": 16, "m6i.4xlarge": 64, "c7g.large": 4, "r5.8xlarge": 256, "r6id.2xlarge": 64,
		"t3.large": 0, "m4.large": 0, "m5.metal": 0, "c3.large": 0, "g5.xlarge": 0, "mac2.metal": 0, "": 0,
	} {
		if got := memoryByName(name); got != want {
			t.Errorf("%s: %v GiB, want %v", name, got, want)
		}
	}
}
