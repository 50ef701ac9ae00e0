package helm

import (
	"errors"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// strictly decodes YAML or JSON: no key twice, none that is unknown, none in other letters.
func strictly(text string, into any) error {
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return err
	}
	unknown, err := json.UnmarshalStrict(data, into)
	return errors.Join(append(unknown, err)...)
}

// typed is what every document begins with.
type typed struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

type named struct {
	Name string `json:"name"`
}

// foreignKinds are documents of programs that are no part of the API server, with the fields that
// the pages use. They are read strictly: a field that is not here is an error until a developer has
// looked it up.
func foreignKinds() map[string]any {
	return map[string]any{
		"eksctl.io/v1alpha5 ClusterConfig":                          &eksctlCluster{},
		"kubeadm.k8s.io/v1beta4 ClusterConfiguration":               &kubeadmCluster{},
		"kind.x-k8s.io/v1alpha4 Cluster":                            &kindCluster{},
		"controlplane.cluster.x-k8s.io/v1beta1 KubeadmControlPlane": &kubeadmControlPlane{},
	}
}

type eksctlCluster struct {
	typed
	Metadata struct {
		named
		Region  string `json:"region"`
		Version string `json:"version"`
	} `json:"metadata"`
	AccessConfig struct {
		AuthenticationMode string `json:"authenticationMode"`
	} `json:"accessConfig"`
	Addons            []named `json:"addons"`
	ManagedNodeGroups []struct {
		named
		InstanceType    string `json:"instanceType"`
		DesiredCapacity int    `json:"desiredCapacity"`
	} `json:"managedNodeGroups"`
}

type kubeadmCluster struct {
	typed
	ClusterName       string `json:"clusterName"`
	KubernetesVersion string `json:"kubernetesVersion"`
	Networking        struct {
		PodSubnet     string `json:"podSubnet"`
		ServiceSubnet string `json:"serviceSubnet"`
	} `json:"networking"`
}

type kindCluster struct {
	typed
	Networking struct {
		ServiceSubnet string `json:"serviceSubnet"`
	} `json:"networking"`
	Nodes []struct {
		Role        string `json:"role"`
		Image       string `json:"image"`
		ExtraMounts []struct {
			HostPath      string `json:"hostPath"`
			ContainerPath string `json:"containerPath"`
			ReadOnly      bool   `json:"readOnly"`
		} `json:"extraMounts"`
	} `json:"nodes"`
}

type kubeadmControlPlane struct {
	typed
	Metadata named `json:"metadata"`
	Spec     struct {
		KubeadmConfigSpec struct {
			Files               []machineFile `json:"files"`
			PostKubeadmCommands []string      `json:"postKubeadmCommands"`
		} `json:"kubeadmConfigSpec"`
	} `json:"spec"`
}

type machineFile struct {
	Path        string `json:"path"`
	Owner       string `json:"owner"`
	Permissions string `json:"permissions"`
	ContentFrom struct {
		Secret struct {
			named
			Key string `json:"key"`
		} `json:"secret"`
	} `json:"contentFrom"`
}

// nodeConfig is what nodeadm reads.
type nodeConfig struct {
	typed
	Spec struct {
		Cluster struct {
			named
			APIServerEndpoint    string `json:"apiServerEndpoint"`
			CertificateAuthority string `json:"certificateAuthority"`
			CIDR                 string `json:"cidr"`
		} `json:"cluster"`
		Kubelet struct {
			Flags []string `json:"flags"`
		} `json:"kubelet"`
	} `json:"spec"`
}
