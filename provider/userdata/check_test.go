package userdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// nodeConfigWith is a NodeConfig with the spec, which is indented.
func nodeConfigWith(spec string) string {
	return "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n" + spec
}

func multipartOf(parts ...string) string {
	return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n" + strings.Join(parts, "\n--B\n") + "\n--B--\n"
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

// check compares fields, and looks for words in the reasons: "field: words".
func check(t *testing.T, what string, got []Problem, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %q, want %q", what, got, want)
	}
	for i, p := range got {
		field, words, _ := strings.Cut(want[i], ": ")
		if p.Field != field || !strings.Contains(p.Reason, words) {
			t.Errorf("%s: got %q, want %q", what, p.Error(), want[i])
		}
	}
}

func TestCheckAL2023(t *testing.T) {
	raid := nodeConfigWith("  instance:\n    localStorage:\n      strategy: RAID0\n")
	tests := map[string]struct {
		user     string
		args     []string
		refused  []string
		warnings []string
	}{
		"nothing":                 {},
		"nothing but empty lines": {user: "\n \n"},
		"a script":                {user: "#!/bin/sh\necho\n"},
		"flags of the kubelet":    {args: []string{"--node-status-update-frequency=10s", "--v=4", "--node-ip=::"}},
		"the user's own cluster": {user: nodeConfigWith("  cluster:\n    name: other\n"),
			refused: []string{"userData: spec.cluster of a NodeConfig is not allowed: Stratos writes it from spec.bootstrap.cluster"}},
		"the user's own taints": {user: nodeConfigWith("  kubelet:\n    config:\n      registerWithTaints: []\n"),
			refused: []string{"userData: spec.kubelet.config.registerWithTaints of a NodeConfig is not allowed: set taints"}},
		"a kubelet that does not register": {user: nodeConfigWith("  kubelet:\n    config:\n      registerNode: false\n"),
			refused: []string{"userData: spec.kubelet.config.registerNode"}},
		"taints by a flag": {user: nodeConfigWith("  kubelet:\n    flags: [--register-with-taints=a=b:NoSchedule]\n"),
			refused: []string{"userData: the kubelet's flag --register-with-taints is not allowed: set taints"}},
		"taints by a flag in quotes with underscores, behind another one": {
			user:    nodeConfigWith("  kubelet:\n    flags: ['--v=2 \"--register_with_taints\" a=b:NoSchedule']\n"),
			refused: []string{"userData: the kubelet's flag --register-with-taints"}},
		"pods and the cluster's file by flags": {user: nodeConfigWith("  kubelet:\n    flags: [--max-pods=9, --kubeconfig=/x]\n"),
			refused: []string{"userData: --max-pods is not allowed: set spec.bootstrap.maxPods", "userData: --kubeconfig is not allowed"}},
		"a flag with a line break, behind which the flags of Stratos would be lost": {
			user:    nodeConfigWith("  kubelet:\n    flags:\n    - |\n      --v=3\n"),
			refused: []string{"userData: spec.kubelet.flags of a NodeConfig has the entry \"--v=3\\n\""}},
		"a flag with an open quote, which would take in the flags of Stratos": {
			user:    nodeConfigWith("  kubelet:\n    flags: ['--v=3 \"', '--v=2']\n"),
			refused: []string{"userData: spec.kubelet.flags of a NodeConfig has the entry"}},
		"a flag that ends with a backslash, which would take in the space before the next one": {
			user:    nodeConfigWith("  kubelet:\n    flags: ['--v=3\\']\n"),
			refused: []string{"userData: spec.kubelet.flags of a NodeConfig has the entry"}},
		"flags in quotes": {user: nodeConfigWith("  kubelet:\n    flags: ['--cloud-config=\"/x y\"']\n")},
		"the number of pods": {user: nodeConfigWith("  kubelet:\n    config:\n      maxPods: 9\n"),
			warnings: []string{"userData: set spec.bootstrap.maxPods"}},
		"a formula for the number of pods": {user: nodeConfigWith("  kubelet:\n    maxPodsExpression: \"9\"\n"),
			warnings: []string{"userData: set spec.bootstrap.maxPods"}},
		"labels by a flag": {user: nodeConfigWith("  kubelet:\n    flags: ['--node-labels=team=blue,node.kubernetes.io/x=y']\n"),
			warnings: []string{"userData: set spec.template.labels of the NodePool"}},
		"a label with which no kubelet starts": {user: nodeConfigWith("  kubelet:\n    flags: ['--node-labels', 'node-role.kubernetes.io/web=']\n"),
			refused:  []string{"userData: label node-role.kubernetes.io/web is not allowed: a kubelet does not start with it"},
			warnings: []string{"userData: --node-labels"}},
		"a label of Stratos": {user: nodeConfigWith("  kubelet:\n    flags: ['--node-labels=stratos.sh/state=running']\n"),
			refused:  []string{"userData: label stratos.sh/state is not allowed"},
			warnings: []string{"userData: --node-labels"}},
		"RAID0 of the instance store":  {user: raid, refused: []string{"userData: strategy RAID0 of a NodeConfig puts containerd and the kubelet on the instance store"}},
		"RAID10 of the instance store": {user: strings.Replace(raid, "RAID0", "RAID10", 1), refused: []string{"userData: strategy RAID10"}},
		"RAID0 in the second document": {user: nodeConfigWith("  kubelet: {}\n") + "---\n" + raid,
			refused: []string{"userData: part 2: spec.instance.localStorage.strategy RAID0"}},
		"RAID0 in a part that is encoded": {user: multipartOf("Content-Type: application/node.eks.aws\n\n"+zipped(t, raid), "\n#!/bin/sh\n"),
			refused: []string{"userData: part 1: spec.instance.localStorage.strategy RAID0"}},
		"AL2's script": {user: "#!/bin/bash\n/etc/eks/bootstrap.sh c --b64-cluster-ca x\n",
			refused: []string{"userData: /etc/eks/bootstrap.sh is not allowed, because with spec.bootstrap the node joins by itself: remove it"}},
		"AL2's script in a comment":       {user: "#!/bin/bash\n# /etc/eks/bootstrap.sh c\necho # nodeadm init\n"},
		"a comment before nodeadm":        {user: "#!/bin/bash\n# see below \\\nnodeadm init\n", refused: []string{"userData: nodeadm init is not allowed"}},
		"nodeadm over two lines":          {user: "#!/bin/bash\n/usr/bin/nodeadm \\\n  init -c file:///x\n", refused: []string{"userData: nodeadm init"}},
		"nodeadm with a flag before":      {user: "#!/bin/bash\nnodeadm --development init\n", refused: []string{"userData: nodeadm init"}},
		"nodeadm that only checks":        {user: "#!/bin/bash\nnodeadm config check\nsystemctl cat nodeadm-run\n"},
		"kubeadm in cloud-config":         {user: "#cloud-config\nruncmd:\n- [\"kubeadm\", '--v=5', join, x]\n", refused: []string{"userData: kubeadm join"}},
		"kubeadm in a list of many lines": {user: "#cloud-config\nruncmd:\n- - kubeadm\n  - join\n", refused: []string{"userData: kubeadm join"}},
		"kubeadm in a boothook of the second part": {user: multipartOf("\n#!/bin/sh\n", "Content-Type: text/cloud-boothook\n\nkubeadm  join x"),
			refused: []string{"userData: part 2: kubeadm join"}},
		"kubeadm in base64": {user: multipartOf("Content-Transfer-Encoding: base64\n\n" +
			base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\nkubeadm join x\n"))),
			refused: []string{"userData: kubeadm join"}},
		"kubeadm in quoted-printable": {user: multipartOf("Content-Transfer-Encoding: quoted-printable\n\n#!/bin/sh\nkubeadm=20jo=\nin x"),
			refused: []string{"userData: kubeadm join"}},
		"base64":                    {user: base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n")), refused: []string{"userData: encoded with base64 or gzip"}},
		"gzip":                      {user: "\x1f\x8b\x08", refused: []string{"userData: encoded with base64 or gzip"}},
		"TOML":                      {user: "[settings.kubernetes]\n", refused: []string{"userData: none of what can be merged: MIME multipart, a script"}},
		"a MIME text of one part":   {user: "MIME-Version: 1.0\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n", refused: []string{"userData: not multipart/mixed"}},
		"MIME that is cut short":    {user: strings.TrimSuffix(multipartOf("\n#!/bin/sh\n"), "--B--\n"), refused: []string{"userData: the last boundary is missing"}},
		"MIME headers without body": {user: "MIME-Version: 1.0\nContent-Type", refused: []string{"userData: MIME headers cannot be read"}},
		"multipart in multipart":    {user: multipartOf("Content-Type: multipart/mixed; boundary=C\n\n--C--"), refused: []string{"userData: multipart itself"}},
		"a part of an unreadable type": {user: multipartOf("Content-Type: a/b/c; =\n\nx"),
			refused: []string{"userData: part 1 of its MIME text is not allowed: its Content-Type"}},
		"YAML of another kind": {user: strings.Replace(nodeConfigWith("  {}\n"), "NodeConfig", "ConfigMap", 1),
			refused: []string{"userData: allowed is NodeConfig of node.eks.aws/v1alpha1"}},
		"a NodeConfig with a key that stands twice": {user: nodeConfigWith("  cluster: {name: x}\n  cluster: null\n"),
			refused: []string{"userData: cannot be read as YAML"}},
		"a NodeConfig whose flags are no list": {user: nodeConfigWith("  kubelet:\n    flags: --v=2\n"),
			refused: []string{"userData: spec.kubelet.flags must be a list of strings"}},
		"a NodeConfig whose spec is a list": {user: "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: []\n",
			refused: []string{"userData: spec must be a map"}},
		"more than EC2 takes": {user: "#!/bin/sh\n" + strings.Repeat("#", MaxBytes), refused: []string{"userData: EC2 allows 16384"}},
		"flags that Stratos or nodeadm sets": {args: []string{"--v=2", "--node-labels=a=b", "--max-pods=5", "--hostname-override=x"},
			refused: []string{"bootstrap.kubeletExtraArgs[1]: set spec.template.labels", "bootstrap.kubeletExtraArgs[2]: spec.bootstrap.maxPods",
				"bootstrap.kubeletExtraArgs[3]: nodeadm sets it"}},
		"flags in another form": {args: []string{"v=2", "-v=2", "--v 2", "--v", "--a=b c", "--a=\"b\"", "--max_pods=5", ""},
			refused: []string{"bootstrap.kubeletExtraArgs[0]: --name=value", "bootstrap.kubeletExtraArgs[1]: --name=value",
				"bootstrap.kubeletExtraArgs[2]: --name=value", "bootstrap.kubeletExtraArgs[3]: --name=value",
				"bootstrap.kubeletExtraArgs[4]: --name=value", "bootstrap.kubeletExtraArgs[5]: --name=value",
				"bootstrap.kubeletExtraArgs[6]: --name=value", "bootstrap.kubeletExtraArgs[7]: --name=value"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			refused, warnings := CheckAL2023(test.user, test.args)
			check(t, "refused", refused, test.refused)
			check(t, "warnings", warnings, test.warnings)
			k := testKubelet()
			k.ExtraArgs = test.args
			if _, err := AL2023(testCluster(), k, test.user); (err == nil) != (len(test.refused) == 0) {
				t.Errorf("the launch says %v", err)
			}
		})
	}
}

func TestCheckBottlerocket(t *testing.T) {
	const kubernetes = "[settings.kubernetes]\n"
	tests := map[string]struct {
		user     string
		args     []string
		refused  []string
		warnings []string
	}{
		"nothing":                    {},
		"unknown tables":             {user: "[future]\nx = 1\n[settings.future]\ny = [1979-05-27, nan]\n"},
		"flags":                      {args: []string{"--v=2"}, refused: []string{"bootstrap.kubeletExtraArgs: Bottlerocket takes no flags"}},
		"a script":                   {user: "#!/bin/sh\necho\n", refused: []string{"userData: not the TOML that Bottlerocket reads (line 2, column"}},
		"base64":                     {user: "W3NldHRpbmdzXQo=", refused: []string{"userData: encoded with base64 or gzip"}},
		"the user's taints":          {user: "[settings.kubernetes.node-taints]\na = [\"b:NoSchedule\"]\n", refused: []string{"userData: settings.kubernetes.node-taints is not allowed: set taints"}},
		"one name for all":           {user: kubernetes + "hostname-override = \"x\"\n", refused: []string{"userData: settings.kubernetes.hostname-override is not allowed"}},
		"a kubelet alone":            {user: kubernetes + "standalone-mode = true\n", refused: []string{"userData: settings.kubernetes.standalone-mode"}},
		"no kubelet alone":           {user: kubernetes + "standalone-mode = false\n"},
		"pods":                       {user: kubernetes + "max-pods = 9\n", warnings: []string{"userData: set spec.bootstrap.maxPods"}},
		"settings that are no table": {user: "settings = 1\n", refused: []string{"userData: settings must be a map"}},
		"labels": {user: "[settings.kubernetes.node-labels]\n\"node-role.kubernetes.io/x\" = \"\"\na = 1\nb = \"c\"\n",
			refused:  []string{`userData: settings.kubernetes.node-labels."a" must be a string`, "userData: label node-role.kubernetes.io/x is not allowed"},
			warnings: []string{"userData: set spec.template.labels of the NodePool"}},
		"folders on the instance store": {
			user: "[settings.bootstrap-commands.disks]\ncommands = [[\"apiclient\", \"ephemeral-storage\", \"init\"], " +
				"[\"apiclient\", \"ephemeral-storage\", \"bind\", \"--dirs\", \"/var/lib/containerd\"]]\nmode = \"always\"\n",
			warnings: []string{"userData: settings.bootstrap-commands.disks binds folders to the instance store, which a stop wipes"}},
		"folders on the instance store, switched off": {
			user: "[settings.bootstrap-commands.disks]\ncommands = [[\"apiclient\", \"ephemeral-storage\", \"bind\"]]\nmode = \"off\"\n"},
		"more than EC2 takes": {user: "#" + strings.Repeat("#", MaxBytes), refused: []string{"userData: EC2 allows 16384"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			refused, warnings := CheckBottlerocket(test.user, test.args)
			check(t, "refused", refused, test.refused)
			check(t, "warnings", warnings, test.warnings)
			k := testKubelet()
			k.ExtraArgs = test.args
			if _, err := Bottlerocket(testCluster(), k, test.user); (err == nil) != (len(test.refused) == 0) {
				t.Errorf("the launch says %v", err)
			}
		})
	}
}

func TestBottlerocketRefusesAnotherCluster(t *testing.T) {
	const kubernetes = "[settings.kubernetes]\n"
	tests := map[string]struct{ user, want string }{
		"the same cluster": {kubernetes + "cluster-name = \"c\"\napi-server = \"https://ABC.gr7.eu-west-1.eks.amazonaws.com\"\n" +
			"cluster-certificate = \"" + testCA + "\"\n", ""},
		"another name":     {kubernetes + "cluster-name = \"d\"\n", "cluster-name is not that of the cluster: remove it, or set spec.bootstrap.cluster.name"},
		"another server":   {kubernetes + "api-server = \"https://d\"\n", "spec.bootstrap.cluster.endpoint"},
		"another CA":       {kubernetes + "cluster-certificate = \"x\"\n", "spec.bootstrap.cluster.certificateAuthority"},
		"a name that is 1": {kubernetes + "cluster-name = 1\n", "spec.bootstrap.cluster.name"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Bottlerocket(testCluster(), testKubelet(), test.user)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestCheckHandWritten(t *testing.T) {
	raid := nodeConfigWith("  cluster:\n    name: c\n  instance:\n    localStorage:\n      strategy: RAID0\n")
	const bind = "[settings.bootstrap-commands.x]\ncommands = [[\"apiclient\", \"ephemeral-storage\", \"bind\"]]\n"
	tests := map[string]struct {
		user string
		want []string
	}{
		"nothing":                           {"", nil},
		"a script that joins":               {"#!/bin/bash\n/etc/eks/bootstrap.sh c\n", nil},
		"a NodeConfig with its own cluster": {strings.Replace(raid, "RAID0", "Mount", 1), nil},
		"RAID0":                             {raid, []string{"userData: strategy RAID0"}},
		"RAID0 in MIME":                     {multipartOf("Content-Type: application/node.eks.aws\n\n" + raid), []string{"userData: strategy RAID0"}},
		"RAID0 in gzip and base64":          {zipped(t, raid), []string{"userData: strategy RAID0"}},
		"Bottlerocket's bind":               {bind, []string{"userData: settings.bootstrap-commands.x binds folders"}},
		"MIME that is cut short":            {"MIME-Version: 1.0\n\n" + raid, nil},
		"a NodeConfig that is no YAML":      {raid + "\t: {", nil},
		"PowerShell":                        {"<powershell>\n</powershell>\n", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			check(t, "warnings", CheckHandWritten(test.user), test.want)
		})
	}
}

func TestCheckCluster(t *testing.T) {
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	tests := map[string]struct {
		cluster Cluster
		want    []string
	}{
		"nothing":                {Cluster{}, nil},
		"all":                    {testCluster(), nil},
		"IPv6":                   {Cluster{ServiceCIDR: "fd00::/108", Endpoint: "https://[fd00::1]:6443"}, nil},
		"an endpoint by http":    {Cluster{Endpoint: "http://x"}, []string{"bootstrap.cluster.endpoint: \"http://x\" is not allowed: it must be a URL with https"}},
		"an endpoint of no host": {Cluster{Endpoint: "https:///x"}, []string{"bootstrap.cluster.endpoint: https and a host"}},
		"a host alone":           {Cluster{Endpoint: "x.example.com"}, []string{"bootstrap.cluster.endpoint: https and a host"}},
		"PEM that is not encoded": {Cluster{CertificateAuthority: "-----BEGIN CERTIFICATE-----"},
			[]string{"bootstrap.cluster.certificateAuthority: it is not base64; it must be base64 of PEM certificates"}},
		"base64 of something else": {Cluster{CertificateAuthority: encoded("x")}, []string{"bootstrap.cluster.certificateAuthority: not PEM"}},
		"base64 of nothing":        {Cluster{CertificateAuthority: encoded(" ")}, []string{"bootstrap.cluster.certificateAuthority: no certificate"}},
		"a private key": {Cluster{CertificateAuthority: encoded("-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n")},
			[]string{"bootstrap.cluster.certificateAuthority: not PEM of certificates alone"}},
		"an address for a range": {Cluster{ServiceCIDR: "172.20.0.0"}, []string{"bootstrap.cluster.serviceCIDR: must be a CIDR"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			check(t, "refused", CheckCluster(test.cluster), test.want)
		})
	}
}

func TestALaunchNamesWhatIsMissing(t *testing.T) {
	labels := map[string]string{"node-role.kubernetes.io/x": "", "a": "b c"}
	_, err := AL2023(Cluster{Name: "c"}, Kubelet{Labels: labels}, "")
	for _, want := range []string{
		"spec.bootstrap.cluster.endpoint: it is not known", "spec.bootstrap.cluster.certificateAuthority: ",
		"spec.bootstrap.cluster.serviceCIDR: ", "the NodePool's label node-role.kubernetes.io/x is not allowed",
		`the NodePool's label a has the value "b c"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := Bottlerocket(Cluster{Name: "c", Endpoint: "https://x"}, Kubelet{}, ""); err == nil ||
		!strings.Contains(err.Error(), "certificateAuthority") || strings.Contains(err.Error(), "serviceCIDR") {
		t.Errorf("got %v; Bottlerocket finds the DNS address without a range", err)
	}
}

func TestTheMergedTextIsMeasured(t *testing.T) {
	for family, user := range map[v1alpha1.BootstrapFamily]string{
		v1alpha1.FamilyAL2023:       "#!/bin/sh\n" + strings.Repeat("#", MaxBytes-100),
		v1alpha1.FamilyBottlerocket: "x = \"" + strings.Repeat("x", MaxBytes-100) + "\"\n",
		v1alpha1.FamilyKubeadm:      "#!/bin/sh\n" + strings.Repeat("#", MaxBytes-100),
	} {
		spec := &v1alpha1.AWSNodeClassSpec{Bootstrap: &v1alpha1.Bootstrap{Family: family}, UserData: user}
		if size := checkSize("it", user); len(size) > 0 {
			t.Fatalf("%s: the user's text alone fits: %v", family, size)
		}
		joins := &v1alpha1.BootstrapStatus{Family: family, Cluster: v1alpha1.BootstrapCluster(testCluster())}
		r := provider.Registration{BootstrapToken: PlaceholderToken}
		_, err := OfLaunch(spec, joins, r)
		if !provider.IsInvalidConfig(err) || !strings.Contains(err.Error(), "spec.userData: the text merged") ||
			!strings.Contains(err.Error(), "EC2 allows 16384") {
			t.Errorf("%s: got %v", family, err)
		}
		check(t, string(family), CheckLaunch(spec, joins, r), []string{"userData: EC2 allows 16384"})
		joins.Cluster.Endpoint = ""
		check(t, "without the endpoint", CheckLaunch(spec, joins, r), nil)
	}
}

func TestRegistersLabel(t *testing.T) {
	got := map[string]bool{}
	want := map[string]bool{
		"team": true, "example.com/team": true, "stratos.sh/pool": true, "notkubernetes.io/x": true,
		"kubernetes.io/os": true, "topology.kubernetes.io/zone": true, "node.kubernetes.io/instance-type": true,
		"node.kubernetes.io/own": true, "a.node.kubernetes.io/own": true, "kubelet.kubernetes.io/own": true,
		"beta.kubernetes.io/arch": true, "failure-domain.beta.kubernetes.io/zone": true,
		"node-role.kubernetes.io/web": false, "node-restriction.kubernetes.io/x": false, "kubernetes.io/own": false,
		"k8s.io/own": false, "eks.k8s.io/own": false, "topology.kubernetes.io/rack": false,
		"cluster-autoscaler.kubernetes.io/x": false,
	}
	for key := range want {
		got[key] = RegistersLabel(key)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestHasStaticMemory: in Bottlerocket's TOML, whatever way it is encoded.
func TestHasStaticMemory(t *testing.T) {
	static := "[settings.kubernetes]\nmemory-manager-policy = \"Static\"\n"
	for text, want := range map[string]bool{
		static: true, "settings.kubernetes.memory-manager-policy = \"Static\"": true, zipped(t, static): true, "": false,
		"[settings.kubernetes]\ncpu-manager-policy = \"static\"\n":           false,
		"[settings.kubernetes]\nmemory-manager-policy = \"None\"\n":          false,
		"[settings.kubelet]\nmemory-manager-policy = \"Static\"\n":           false,
		nodeConfigWith("  kubelet: {config: {memoryManagerPolicy: Static}}"): false,
		"#!/bin/bash\necho memory-manager-policy\n":                          false,
	} {
		if got := HasStaticMemory(text); got != want {
			t.Errorf("%v, want %v, of %q", got, want, text)
		}
	}
}
