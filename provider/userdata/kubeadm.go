package userdata

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

//go:embed kubeadm
var kubeadmFiles embed.FS

// PlaceholderToken has the form of a bootstrap token, and stands for one that is not known.
const PlaceholderToken = "abcdef.0123456789abcdef"

const (
	joinUnit      = "stratos-join.service"
	discoveryPath = "/etc/stratos/cluster.conf"
	// placeholderName and placeholderID stand in the join configuration for what the instance reads
	// from its metadata service.
	placeholderName = "@NAME@"
	placeholderID   = "@PROVIDER_ID@"
)

var bootstrapToken = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

// Kubeadm writes MIME for an image with containerd, kubelet and kubeadm: a script of Stratos that
// enables a unit, and the parts of the user's text as they are. The unit joins the cluster once
// cloud-init has run all of them. It is enabled first, so that a script of the user may reboot.
// No cloud-config is written, because cloud-init replaces lists of one by those of the next. token
// is the bootstrap token with which the kubelet obtains its certificate. Of the cluster, the
// endpoint and the certificate authority are needed. The error is made of Problems.
func Kubeadm(c Cluster, k Kubelet, token, user string) (string, error) {
	refused, _ := CheckKubeadm(user, k.ExtraArgs)
	problems := slices.Concat(checkComplete(c, fieldEndpoint, fieldCA), checkToken(token), checkLabels(k.Labels), refused)
	if len(problems) > 0 {
		return "", joined(problems)
	}
	parts, err := partsOf(user)
	if err != nil {
		return "", inUserData("%s", err)
	}
	install, err := installScript(c, k, token)
	if err != nil {
		return "", err
	}
	return writeMIME(slices.Insert(parts, 0, firstScript("stratos-join", install))), nil
}

// checkToken does not repeat the token, which is a secret.
func checkToken(token string) []Problem {
	if bootstrapToken.MatchString(token) {
		return nil
	}
	return []Problem{{"bootstrap", "the bootstrap token of the launch has not the form id.secret, with 6 and 16 " +
		"lower-case letters and digits"}}
}

// installScript puts the files in place and starts the unit. cloud-init runs it at the first boot
// only.
func installScript(c Cluster, k Kubelet, token string) (string, error) {
	files, err := installedFiles(c, k, token)
	if err != nil {
		return "", err
	}
	return scriptOf(files, "systemctl daemon-reload", "systemctl enable "+joinUnit,
		"systemctl start --no-block "+joinUnit), nil
}

func installedFiles(c Cluster, k Kubelet, token string) ([]installedFile, error) {
	join, err := yaml.Marshal(joinConfigurationOf(k, token))
	if err != nil {
		return nil, fmt.Errorf("write the join configuration: %w", err)
	}
	discovery, err := yaml.Marshal(discoveryOf(c))
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig for discovery: %w", err)
	}
	files := []installedFile{
		{discoveryPath, "0600", string(discovery)},
		{"/etc/stratos/join.yaml", "0600", string(join)},
		kubeletStateFile(),
	}
	for _, f := range []struct{ name, path, mode string }{
		{"stratos-join", "/usr/local/sbin/stratos-join", "0755"},
		{joinUnit, "/etc/systemd/system/" + joinUnit, "0644"},
		{"first-boot.conf", "/run/systemd/system/" + joinUnit + ".d/first-boot.conf", "0644"},
		{"kubelet-order.conf", "/etc/systemd/system/kubelet.service.d/stratos-order.conf", "0644"},
	} {
		text, err := kubeadmFiles.ReadFile("kubeadm/" + f.name)
		if err != nil {
			return nil, err
		}
		files = append(files, installedFile{f.path, f.mode, string(text)})
	}
	return files, nil
}

// joinConfiguration is kubeadm's, in the part that is used here.
type joinConfiguration struct {
	APIVersion       string           `json:"apiVersion"`
	Kind             string           `json:"kind"`
	Discovery        joinDiscovery    `json:"discovery"`
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
}

type joinDiscovery struct {
	File              fileDiscovery `json:"file"`
	TLSBootstrapToken string        `json:"tlsBootstrapToken"`
}

type fileDiscovery struct {
	KubeConfigPath string `json:"kubeConfigPath"`
}

type nodeRegistration struct {
	Name             string         `json:"name"`
	Taints           []corev1.Taint `json:"taints,omitempty"`
	KubeletExtraArgs []kubeletArg   `json:"kubeletExtraArgs"`
}

type kubeletArg struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// joinConfigurationOf gives the kubelet flags for everything, because a flag beats the cluster's
// configuration of kubelets. kubeadm puts them into /var/lib/kubelet/kubeadm-flags.env.
func joinConfigurationOf(k Kubelet, token string) joinConfiguration {
	args := []kubeletArg{{"provider-id", placeholderID}}
	if len(k.Labels) > 0 {
		args = append(args, kubeletArg{"node-labels", labelsFlag(k.Labels)})
	}
	if k.MaxPods > 0 {
		args = append(args, kubeletArg{"max-pods", fmt.Sprint(k.MaxPods)})
	}
	for _, arg := range k.ExtraArgs {
		words := extraArg.FindStringSubmatch(arg)
		args = append(args, kubeletArg{words[1], words[2]})
	}
	return joinConfiguration{
		APIVersion: "kubeadm.k8s.io/v1beta4", Kind: "JoinConfiguration",
		Discovery:        joinDiscovery{fileDiscovery{discoveryPath}, token},
		NodeRegistration: nodeRegistration{placeholderName, uniqueTaints(k.Taints), args},
	}
}

// discoveryOf is a kubeconfig without a user, as in the ConfigMap kube-public/cluster-info.
func discoveryOf(c Cluster) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Config",
		"clusters": []any{map[string]any{"name": "", "cluster": map[string]any{
			"server": c.Endpoint, "certificate-authority-data": oneLineCA(c.CertificateAuthority),
		}}},
	}
}

// CheckKubeadm says what Kubeadm refuses of the user's text and of bootstrap.kubeletExtraArgs, and
// what it accepts although it may beat what Stratos sets. Both are known without the cluster.
func CheckKubeadm(user string, extraArgs []string) (refused, warnings []Problem) {
	refused = append(checkSize("it", user), checkArgs(extraArgs, kubeadmFlagFault)...)
	faults, warnings := checkParts(user, checkKubeadmPart)
	return append(refused, faults...), warnings
}

func checkKubeadmPart(p part) (faults, hints []string) {
	mediaType, err := p.mediaType()
	if err != nil {
		return []string{err.Error()}, nil
	}
	if mediaType == typeNodeConfig {
		return []string{"a NodeConfig is for images of AL2023: with the family Kubeadm nothing reads it, so write a " +
			"script or a text of cloud-init"}, nil
	}
	text := p.text()
	if fault := joinFault(text); fault != "" {
		faults = append(faults, fault)
	}
	if strings.Contains(withoutComments(text), "KUBELET_EXTRA_ARGS") {
		hints = append(hints, "flags in KUBELET_EXTRA_ARGS come after those of Stratos and beat them, so the node may lack its "+
			"taints and labels: use spec.bootstrap.kubeletExtraArgs")
	}
	return faults, hints
}
