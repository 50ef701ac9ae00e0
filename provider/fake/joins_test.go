package fake

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// otherCA is a certificate authority that is not the cluster's.
const otherCA = `-----BEGIN CERTIFICATE-----
MIIBfjCCASWgAwIBAgIULpWZ8PkmjL7HVsH/c5hxnlHrOMEwCgYIKoZIzj0EAwIw
-----END CERTIFICATE-----
`

// nodeConfig is a NodeConfig by hand, for the cluster that the fake cloud's machines join.
func nodeConfig(kubelet string, change ...string) string {
	text := fmt.Sprintf(`apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: simulated
    apiServerEndpoint: %s
    certificateAuthority: %s
    cidr: %s
%s`, simcloud.ClusterEndpoint, simcloud.ClusterCA(), simcloud.ClusterServiceCIDR, kubelet)
	return strings.NewReplacer(change...).Replace(text)
}

// inMIME puts parts, each of which begins with its type, into one text.
func inMIME(parts ...string) string {
	text := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n"
	for _, part := range parts {
		text += "--B\nContent-Type: " + part + "\n"
	}
	return text + "--B--\n"
}

func settings(more string, change ...string) string {
	text := fmt.Sprintf("[settings.kubernetes]\ncluster-name = \"simulated\"\napi-server = %q\n"+
		"cluster-certificate = %q\n%s", simcloud.ClusterEndpoint, simcloud.ClusterCA(), more)
	return strings.NewReplacer(change...).Replace(text)
}

// TestAMachineJoinsByWhatItsUserDataSays: a machine whose user data names another cluster, or with
// which no kubelet starts, has power and never a Node.
func TestAMachineJoinsByWhatItsUserDataSays(t *testing.T) {
	t.Parallel()
	const nodeadm = "application/node.eks.aws\n\n"
	encoded := func(pem string) string { return base64.StdEncoding.EncodeToString([]byte(pem)) }
	for name, c := range map[string]struct {
		text  string
		joins bool
	}{
		"a NodeConfig":                 {nodeConfig(""), true},
		"a NodeConfig in MIME":         {inMIME(nodeadm + nodeConfig("")), true},
		"a NodeConfig in base64":       {inMIME(nodeadm + encoded(nodeConfig(""))), true},
		"another CA":                   {nodeConfig("", simcloud.ClusterCA(), encoded(otherCA)), false},
		"the CA beside another one":    {nodeConfig("", simcloud.ClusterCA(), encoded(otherCA+clusterPEM(t))), true},
		"a CA that is not base64":      {nodeConfig("", simcloud.ClusterCA(), "-----BEGIN"), false},
		"a CA that is not PEM":         {nodeConfig("", simcloud.ClusterCA(), encoded("nothing")), false},
		"no CA":                        {nodeConfig("", "    certificateAuthority: "+simcloud.ClusterCA()+"\n", ""), false},
		"another name":                 {nodeConfig("", "name: simulated", "name: other"), false},
		"no name":                      {nodeConfig("", "    name: simulated\n", ""), false},
		"another endpoint":             {nodeConfig("", simcloud.ClusterEndpoint, "https://10.0.0.1"), false},
		"an endpoint without https":    {nodeConfig("", "https://", "http://"), false},
		"no endpoint":                  {nodeConfig("", "    apiServerEndpoint: "+simcloud.ClusterEndpoint+"\n", ""), false},
		"another range":                {nodeConfig("", simcloud.ClusterServiceCIDR, "10.96.0.0/12"), false},
		"no range":                     {nodeConfig("", "    cidr: "+simcloud.ClusterServiceCIDR+"\n", ""), false},
		"no cluster":                   {"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n", false},
		"a field in other letters":     {nodeConfig("", "apiServerEndpoint", "apiserverendpoint"), false},
		"a NodeConfig that is no YAML": {nodeConfig("  kubelet: [\n"), false},
		"of several the last name":     {inMIME(nodeadm+nodeConfig(""), nodeadm+nodeConfig("", "simulated", "other")), false},
		"of several the last CA": {inMIME(nodeadm+nodeConfig("", simcloud.ClusterCA(), encoded(otherCA)),
			nodeadm+nodeConfig("")), true},
		"the cluster in two parts": {inMIME(nodeadm+nodeConfig("", "    name: simulated\n", ""),
			nodeadm+"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {cluster: {name: simulated}}\n"), true},
		"MIME that is cut short":           {strings.TrimSuffix(inMIME(nodeadm+nodeConfig("")), "--B--\n"), false},
		"a label that a kubelet has":       {nodeConfig("  kubelet: {flags: [--node-labels=node.kubernetes.io/role=web]}\n"), true},
		"a label of kubernetes.io":         {nodeConfig("  kubelet: {flags: [--node-labels=node-role.kubernetes.io/web=]}\n"), false},
		"a label of k8s.io":                {nodeConfig("  kubelet: {flags: [--node-labels=a.k8s.io/web=]}\n"), false},
		"a label that is none":             {nodeConfig("  kubelet: {flags: ['--node-labels=a=b_']}\n"), false},
		"a taint without effect":           {nodeConfig("  kubelet: {config: {registerWithTaints: [{key: a}]}}\n"), false},
		"a taint flag without effect":      {nodeConfig("  kubelet: {flags: [--register-with-taints=a]}\n"), false},
		"a kubelet that registers no Node": {nodeConfig("  kubelet: {config: {registerNode: false}}\n"), false},

		"settings of Bottlerocket":          {settings(""), true},
		"settings with another CA":          {settings("", simcloud.ClusterCA(), encoded(otherCA)), false},
		"settings with another name":        {settings("", "simulated", "other"), false},
		"settings with another endpoint":    {settings("", "https://", "http://"), false},
		"settings without a name":           {settings("", "cluster-name", "pod-infra-container-image"), false},
		"settings with a label of k8s.io":   {settings("[settings.kubernetes.node-labels]\n\"k8s.io/a\" = \"\"\n"), false},
		"settings with a taint of no value": {settings("[settings.kubernetes.node-taints]\na = [\"NoSchedule\"]\n"), false},
		"settings that are no TOML":         {settings("[settings.kubernetes\n"), false},

		"a script":         {"#!/bin/sh\n/etc/eks/bootstrap.sh c\n", true},
		"a script in MIME": {inMIME("text/x-shellscript\n\n#!/bin/sh\n/etc/eks/bootstrap.sh c\n"), true},
		"a script in MIME that is cut short": {strings.TrimSuffix(
			inMIME("text/x-shellscript\n\n#!/bin/sh\n/etc/eks/bootstrap.sh c\n"), "--B--\n"), true},
		"no user data at all":  {"", true},
		"cloud-config of a CI": {"#cloud-config\nruncmd: [kubeadm join 10.0.0.1]\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
				w.class.Spec.UserData = c.text
				instance := w.launch()
				w.after(10 * time.Second)
				w.isState(instance, provider.InstanceRunning)
				if joined := w.node(instance) != nil; joined != c.joins {
					t.Errorf("joined %t, want %t", joined, c.joins)
				}
			})
		})
	}
}

func clusterPEM(t *testing.T) string {
	t.Helper()
	pem, err := base64.StdEncoding.DecodeString(simcloud.ClusterCA())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem)
}

// registered is what a Node shows of its kubelet's settings.
type registered struct {
	Labels map[string]string
	Taints []string
	Pods   int64
}

// TestAMachineRegistersWithWhatItsUserDataSays: from the first moment on.
func TestAMachineRegistersWithWhatItsUserDataSays(t *testing.T) {
	t.Parallel()
	const nodeadm = "application/node.eks.aws\n\n"
	for name, c := range map[string]struct {
		text string
		want registered
	}{
		"of the configuration": {nodeConfig(`  kubelet:
    config: {maxPods: 12, registerWithTaints: [{key: a, value: b, effect: NoSchedule}, {key: a, effect: NoExecute}]}
    flags: ["--node-labels=team=a,tier="]
`), registered{map[string]string{"team": "a", "tier": ""}, []string{"a:NoExecute", "a:NoSchedule"}, 12}},
		"a flag beats the configuration": {nodeConfig(`  kubelet:
    config: {maxPods: 12, registerWithTaints: [{key: a, effect: NoSchedule}]}
    flags: [--max-pods=9, --register-with-taints, "b=c:NoExecute,d:NoSchedule"]
`), registered{map[string]string{}, []string{"b:NoExecute", "d:NoSchedule"}, 9}},
		"later parts": {inMIME(nodeadm+nodeConfig(`  kubelet:
    config: {maxPods: 12, evictionHard: {memory.available: 5%}, registerWithTaints: [{key: a, effect: NoSchedule}]}
    flags: ["--node-labels=team=a,tier=x", --v=2]
`), "text/x-shellscript\n\n#!/bin/sh\nkubelet --node-labels=not=read --register-with-taints=not=read:NoSchedule", nodeadm+
			nodeConfig(`  kubelet:
    config: {registerWithTaints: [{key: b, effect: NoSchedule}]}
    flags: ["--node-labels=team=b"]
`)), registered{map[string]string{"team": "b", "tier": "x"}, []string{"b:NoSchedule"}, 12}},
		"the image's number of pods": {nodeConfig(""), registered{map[string]string{}, nil, 29}},
		"settings": {settings("max-pods = 12\n[settings.kubernetes.node-labels]\nteam = \"a\"\n" +
			"[settings.kubernetes.node-taints]\na = [\"b:NoSchedule\", \":NoExecute\"]\n"),
			registered{map[string]string{"team": "a"}, []string{"a:NoExecute", "a:NoSchedule"}, 12}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
				w.class.Spec.UserData = c.text
				instance := w.launch()
				w.after(2900 * time.Millisecond)
				if diff := cmp.Diff(c.want, w.registered(instance, "team", "tier", "not")); diff != "" {
					t.Errorf("the Node (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// registered reads the Node with those of the labels that it has.
func (w *world) registered(instance *provider.Instance, labels ...string) registered {
	w.t.Helper()
	node := w.node(instance)
	if node == nil {
		w.t.Fatal("no Node shortly before Ready")
	}
	if condition(node, corev1.NodeReady).Status != corev1.ConditionFalse {
		w.t.Error("the kubelet has reported Ready before it was looked at")
	}
	got := registered{Labels: map[string]string{}, Taints: taintKeys(node), Pods: node.Status.Allocatable.Pods().Value()}
	for _, key := range labels {
		if value, ok := node.Labels[key]; ok {
			got.Labels[key] = value
		}
	}
	return got
}

// TestTheTextOfStratosJoins: what Stratos writes for a class with bootstrap is enough, and nothing
// can land before Stratos has seen the Node.
func TestTheTextOfStratosJoins(t *testing.T) {
	t.Parallel()
	for _, family := range []v1alpha1.BootstrapFamily{v1alpha1.FamilyAL2023, v1alpha1.FamilyBottlerocket} {
		t.Run(string(family), func(t *testing.T) {
			inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
				w.class.Spec.UserData = ""
				w.class.Spec.Bootstrap = &v1alpha1.Bootstrap{Family: family, MaxPods: new(int32(12))}
				instance, err := w.cloud.LaunchInstance(t.Context(), w.class, provider.LaunchRequest{
					Registration: provider.Registration{
						Labels:        map[string]string{"team": "a", "node-role.kubernetes.io/web": ""},
						Taints:        []v1alpha1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}},
						StartupTaints: []v1alpha1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoExecute}},
					}})
				if err != nil {
					t.Fatal(err)
				}
				w.after(2900 * time.Millisecond)
				want := registered{map[string]string{"team": "a"},
					[]string{"cni:NoExecute", "gpu:NoSchedule", "stratos.sh/standby:NoSchedule"}, 12}
				if diff := cmp.Diff(want, w.registered(instance, "team", "node-role.kubernetes.io/web")); diff != "" {
					t.Errorf("the Node (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// takeTokens has the API server take this bootstrap token while valid is true.
func (w *world) takeTokens(token string, valid *atomic.Bool) {
	w.client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		if valid.Load() && review.Spec.Token == token {
			review.Status.Authenticated, review.Status.User.Groups = true, []string{bootstrapGroup}
		}
		return true, review, nil
	})
}

// TestAMachineJoinsByItsToken: what Stratos writes for the family Kubeadm is enough while the API
// server takes the token. A machine that has joined has a certificate.
func TestAMachineJoinsByItsToken(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
		const token = "abcdef.0123456789abcdef"
		var valid atomic.Bool
		w.takeTokens(token, &valid)
		w.class.Spec.UserData = ""
		w.class.Spec.Bootstrap = &v1alpha1.Bootstrap{Family: v1alpha1.FamilyKubeadm, MaxPods: new(int32(12))}
		instance, err := w.cloud.LaunchInstance(t.Context(), w.class, provider.LaunchRequest{
			Registration: provider.Registration{
				BootstrapToken: token, Labels: map[string]string{"team": "a"},
				StartupTaints: []v1alpha1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoExecute}},
			}})
		if err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute)
		if w.node(instance) != nil {
			t.Error("it has joined without a token that the API server takes")
		}
		valid.Store(true)
		w.after(10 * time.Second)
		node := w.node(instance)
		if node == nil {
			t.Fatal("it does not join")
		}
		want := []string{"cni:NoExecute", "stratos.sh/standby:NoSchedule"}
		if got := taintKeys(node); !slices.Equal(got, want) || node.Labels["team"] != "a" ||
			node.Status.Allocatable.Pods().Value() != 12 {
			t.Errorf("taints %q, labels %v, %d pods", got, node.Labels, node.Status.Allocatable.Pods().Value())
		}
		valid.Store(false)
		w.stopped(instance)
		if err := w.client.CoreV1().Nodes().Delete(t.Context(), node.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.start(instance)
		w.after(10 * time.Second)
		if w.node(instance) == nil {
			t.Error("after its token has ended it does not come back")
		}
	})
}

// TestAMachineDoesNotJoinByFaultyFiles of kubeadm.
func TestAMachineDoesNotJoinByFaultyFiles(t *testing.T) {
	t.Parallel()
	const token = "abcdef.0123456789abcdef"
	good := fmt.Sprintf(`#!/bin/sh
write /etc/c.conf 0600 <<'END'
clusters:
- cluster:
    certificate-authority-data: %s
    server: %s
END
write /etc/join.yaml 0600 <<'END'
kind: JoinConfiguration
discovery:
  file: {kubeConfigPath: /etc/c.conf}
  tlsBootstrapToken: %s
END
`, simcloud.ClusterCA(), simcloud.ClusterEndpoint, token)
	for name, c := range map[string]struct {
		old, change string
		joins       bool
	}{
		"as it should be":        {"", "", true},
		"another endpoint":       {simcloud.ClusterEndpoint, "https://10.0.0.1", false},
		"another CA":             {simcloud.ClusterCA(), encode([]byte(otherCA)), false},
		"another path":           {"kubeConfigPath: /etc/c", "kubeConfigPath: /etc/d", false},
		"no token":               {"tlsBootstrapToken: " + token, "", false},
		"another token":          {token, "abcdef.0123456789abcdee", false},
		"a file without its end": {token + "\nEND\n", token + "\n", false},
		"a file that is no YAML": {"discovery:", "discovery: [", false},
		"a label of kubernetes.io": {"discovery:", "nodeRegistration: {kubeletExtraArgs: [{name: node-labels, value: " +
			"node-role.kubernetes.io/a=}]}\ndiscovery:", false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
				var valid atomic.Bool
				valid.Store(true)
				w.takeTokens(token, &valid)
				w.class.Spec.UserData = strings.Replace(good, c.old, c.change, 1)
				instance := w.launch()
				w.after(10 * time.Second)
				if joined := w.node(instance) != nil; joined != c.joins {
					t.Errorf("joined %t, want %t", joined, c.joins)
				}
			})
		})
	}
}

// TestBottlerocketHasNoShell: what looks like a command in its settings powers nothing off, where
// a part of MIME does beside a NodeConfig.
func TestBottlerocketHasNoShell(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want provider.InstanceState
	}{
		"settings": {settings("[settings.bootstrap-commands.off]\ncommands = [[\"sh\", \"-c\", '''\npoweroff\n''']]\n"),
			provider.InstanceRunning},
		"a part in base64": {inMIME("application/node.eks.aws\n\n"+nodeConfig(""),
			"text/x-shellscript\nContent-Transfer-Encoding: base64\n\n"+
				base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\npoweroff\n"))), provider.InstanceStopped},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Options{}, MachinesOptions{}, func(t *testing.T, w *world) {
				w.class.Spec.UserData = c.text
				instance := w.launch()
				w.after(10 * time.Second)
				w.isState(instance, c.want)
			})
		})
	}
}
