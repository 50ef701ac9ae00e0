package kind

import (
	"archive/tar"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

//go:embed firstboot
var firstBootFiles embed.FS

const (
	// bootFolder is where a node keeps what its first boot needs.
	bootFolder = "kind/stratos/"
	unitFile   = "stratos-first-boot.service"
	unitFolder = "etc/systemd/system/"
	// address stands in the join configuration for the node's own, which is not known before it boots.
	address = "@ADDRESS@"
)

// joinConfiguration is kubeadm's, in the part that is used here.
type joinConfiguration struct {
	APIVersion       string           `json:"apiVersion"`
	Kind             string           `json:"kind"`
	SkipPhases       []string         `json:"skipPhases"`
	Discovery        discovery        `json:"discovery"`
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
	Patches          patches          `json:"patches"`
}

type discovery struct {
	BootstrapToken bootstrapToken `json:"bootstrapToken"`
}

type bootstrapToken struct {
	APIServerEndpoint string   `json:"apiServerEndpoint"`
	Token             string   `json:"token"`
	CACertHashes      []string `json:"caCertHashes"`
}

type nodeRegistration struct {
	Name             string         `json:"name"`
	CRISocket        string         `json:"criSocket"`
	Taints           []corev1.Taint `json:"taints"`
	KubeletExtraArgs []argument     `json:"kubeletExtraArgs"`
}

type argument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type patches struct {
	Directory string `json:"directory"`
}

// kubeletPatch is laid over the cluster's kubelet configuration.
type kubeletPatch struct {
	SystemReserved map[corev1.ResourceName]string `json:"systemReserved,omitempty"`
}

// joinConfig is what kubeadm joins the node by. The node registers with Stratos's own taint, so
// that nothing lands on it before Stratos has seen it.
func joinConfig(name string, class *v1alpha1.KindNodeClass, key joinKey) joinConfiguration {
	cluster := class.Spec.Cluster
	return joinConfiguration{
		APIVersion: "kubeadm.k8s.io/v1beta4", Kind: "JoinConfiguration",
		SkipPhases: []string{"preflight"}, // it checks machines, and a node container is none
		Discovery: discovery{bootstrapToken{
			APIServerEndpoint: key.endpoint, Token: key.token, CACertHashes: []string{key.caHash},
		}},
		NodeRegistration: nodeRegistration{
			Name: name, CRISocket: "unix:///run/containerd/containerd.sock",
			Taints: []corev1.Taint{{Key: v1alpha1.TaintStandby, Effect: corev1.TaintEffectNoSchedule}},
			KubeletExtraArgs: []argument{
				{"node-ip", address},
				{"provider-id", providerID(cluster, name)},
				{"node-labels", corev1.LabelTopologyZone + "=" + cluster + "," + corev1.LabelInstanceTypeStable + "=" + class.Name},
			},
		},
		Patches: patches{Directory: "/" + bootFolder + "patches"},
	}
}

// bootFile is one file for the node.
type bootFile struct {
	name string
	mode int64
	text []byte
}

// firstBoot returns what the first boot needs, as an archive to unpack at the node's root.
func firstBoot(name string, class *v1alpha1.KindNodeClass, key joinKey) (io.Reader, error) {
	join, err := json.MarshalIndent(joinConfig(name, class, key), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("join configuration: %w", err)
	}
	patch := kubeletPatch{}
	for resource, amount := range class.Spec.Reserved {
		if patch.SystemReserved == nil {
			patch.SystemReserved = map[corev1.ResourceName]string{}
		}
		patch.SystemReserved[resource] = amount.String()
	}
	kubelet, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("kubelet configuration: %w", err)
	}
	script, err := firstBootFiles.ReadFile("firstboot/first-boot")
	if err != nil {
		return nil, err
	}
	unit, err := firstBootFiles.ReadFile("firstboot/" + unitFile)
	if err != nil {
		return nil, err
	}
	return archive([]bootFile{
		{bootFolder + "join.json", 0o600, join},
		{bootFolder + "patches/kubeletconfiguration0+merge.json", 0o644, kubelet},
		{bootFolder + "first-boot", 0o755, script},
		{bootFolder + "boot-script", 0o700, []byte(class.Spec.BootScript)},
		{unitFolder + unitFile, 0o644, unit},
	})
}

// archive packs the files, and enables the unit as `systemctl enable` would.
func archive(files []bootFile) (io.Reader, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	now := time.Now()
	headers := []*tar.Header{
		folder(bootFolder, now), folder(bootFolder+"patches/", now), folder(unitFolder+"multi-user.target.wants/", now),
		{Typeflag: tar.TypeSymlink, Name: unitFolder + "multi-user.target.wants/" + unitFile, Linkname: "/" + unitFolder +
			unitFile, Mode: 0o777, ModTime: now},
	}
	for _, header := range headers {
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("files for the first boot: %w", err)
		}
	}
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: now}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("files for the first boot: %w", err)
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, fmt.Errorf("files for the first boot: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("files for the first boot: %w", err)
	}
	return &out, nil
}

func folder(name string, now time.Time) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, ModTime: now}
}
