package management

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/stacks/format"
	"github.com/stratos-sh/stratos/stacks/release"
	"github.com/stratos-sh/stratos/stacks/source"
	"github.com/stratos-sh/stratos/stacks/stackstest"
)

const (
	nodeImageLabel    = "node.cluster.x-k8s.io/stratos-node-image"
	imageLookupFormat = "stratos-node-{{.BaseOS}}-{{.K8sVersion}}-v1-*"
)

// variables are the values of the class's variables by name.
type variables = map[string]any

// onlyRequired has the variables without a default.
func onlyRequired() variables { return variables{"imageOwner": "123456789012"} }

// others has another value than the default for each variable.
func others() variables {
	return variables{"region": "eu-west-1", "vpcCIDR": "10.20.0.0/16", "controlPlaneInstanceType": "m7i.xlarge",
		"workerInstanceType": "m7g.large", "controlPlaneRootVolumeSize": 80.0, "workerRootVolumeSize": 100.0,
		"sshKeyName": "operators", "controlPlaneInstanceProfile": "stratos-control-plane",
		"nodeInstanceProfile": "stratos-nodes", "imageOwner": "210987654321"}
}

// wrong has a value for each variable that its schema does not allow.
func wrong() variables {
	return variables{"region": "Frankfurt", "vpcCIDR": "10.0.0.0/8", "controlPlaneInstanceType": "large",
		"workerInstanceType": "m7g large", "controlPlaneRootVolumeSize": 7.0, "workerRootVolumeSize": "100",
		"sshKeyName": strings.Repeat("k", 256), "controlPlaneInstanceProfile": "", "nodeInstanceProfile": "",
		"imageOwner": "self"}
}

// TestClassBecomesMachines lets Cluster API make a control plane, templates of machines and a
// machine of each class of the project, with the defaults of the variables and with other values.
func TestClassBecomesMachines(t *testing.T) {
	c := newManagementCluster(t)
	helm := build(t, "../../helm", "helm.sh/helm/v4/cmd/helm", "helm")
	for _, r := range releases(t, stackstest.CopyWithCharts(t, "../../..")) {
		t.Run(r.Tag.String(), func(t *testing.T) {
			c.applyClass(t, helm, r)
			class := r.Tag.ClassName()
			names := namesOfVariables(t, c.get(t, "clusterclass", class))
			for name, values := range map[string]variables{"others": others(), "wrong": wrong()} {
				if diff := cmp.Diff(names, slices.Sorted(maps.Keys(values))); diff != "" {
					t.Fatalf("%s does not have each variable of the class:\n%s", name, diff)
				}
			}
			t.Run("defaults", func(t *testing.T) {
				c.becomes(t, r, "defaults-"+r.Tag.Minor.String(), onlyRequired(), variables{
					"region": "eu-central-1", "vpcCIDR": "10.0.0.0/16", "controlPlaneInstanceType": "m6i.large",
					"workerInstanceType": "m6i.large", "controlPlaneRootVolumeSize": 40.0, "workerRootVolumeSize": 40.0,
					"sshKeyName": nil, "controlPlaneInstanceProfile": "control-plane.cluster-api-provider-aws.sigs.k8s.io",
					"nodeInstanceProfile": "nodes.cluster-api-provider-aws.sigs.k8s.io", "imageOwner": "123456789012"})
			})
			t.Run("others", func(t *testing.T) {
				c.becomes(t, r, "others-"+r.Tag.Minor.String(), others(), others())
			})
			for _, name := range names {
				t.Run("wrong "+name, func(t *testing.T) {
					values := onlyRequired()
					values[name] = wrong()[name]
					c.refuses(t, r, values, "spec.topology.variables["+name+"].value: ")
				})
			}
			t.Run("no owner of the image", func(t *testing.T) { c.refuses(t, r, nil, `"imageOwner" must be set`) })
			t.Run("unknown variable", func(t *testing.T) {
				values := onlyRequired()
				values["regoin"] = "eu-west-1"
				c.refuses(t, r, values, "spec.topology.variables[regoin]: ")
			})
		})
	}
}

// releases makes a release of each stack in a folder.
func releases(t *testing.T, stacks string) []*release.Release {
	t.Helper()
	folders, err := source.Find(stacks)
	if err != nil {
		t.Fatal(err)
	}
	var all []*release.Release
	for _, folder := range folders {
		r, err := release.Create(stackstest.Open(t, folder), release.Stable, format.Versions{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// applyClass applies the class of a release and waits until the webhooks know its variables.
func (c *cluster) applyClass(t *testing.T, helm string, r *release.Release) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "release")
	if err := r.Files.WriteNew(folder); err != nil {
		t.Fatal(err)
	}
	c.apply(t, []byte(render(t, helm, r.Tag.Base(), filepath.Join(folder, r.ClassArchive()), "default", "")))
	c.waitFor(t, "clusterclass/"+r.Tag.ClassName(), "condition=VariablesReady")
}

func namesOfVariables(t *testing.T, class object) []string {
	t.Helper()
	var names []string
	for _, variable := range field(class, "spec", "variables").([]any) {
		names = append(names, field(variable, "name").(string))
	}
	slices.Sort(names)
	return names
}

func clusterOf(r *release.Release, name string, values variables) object {
	list := []any{}
	for _, variable := range slices.Sorted(maps.Keys(values)) {
		list = append(list, object{"name": variable, "value": values[variable]})
	}
	return object{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
		"metadata": object{"name": name, "namespace": "default"},
		"spec": object{"topology": object{
			"classRef": object{"name": r.Tag.ClassName()}, "version": r.Hashes.Versions.Kubernetes, "variables": list,
			"controlPlane": object{"replicas": 3},
			"workers": object{"machineDeployments": []any{
				object{"class": "default-worker", "name": "workers", "replicas": 1}}},
		}}}
}

// refuses fails unless the webhook refuses a Cluster with values and says want.
func (c *cluster) refuses(t *testing.T, r *release.Release, values variables, want string) {
	t.Helper()
	_, complaint := c.try(t, marshal(t, []object{clusterOf(r, "refused", values)}),
		"apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-")
	if !strings.Contains(complaint, `The Cluster "refused" is invalid`) || !strings.Contains(complaint, want) {
		t.Errorf("kubectl said %q, want a refusal with %q", complaint, want)
	}
}

// becomes applies a Cluster with values and compares what the class decides in the objects that
// Cluster API makes. Where want has nil, the field is absent.
func (c *cluster) becomes(t *testing.T, r *release.Release, name string, values, want variables) {
	t.Helper()
	c.apply(t, marshal(t, []object{clusterOf(r, name, values)}))
	c.waitFor(t, "cluster/"+name, "condition=TopologyReconciled")
	made := c.get(t, "cluster", name)
	infrastructure := c.refer(t, field(made, "spec", "infrastructureRef"))
	network := field(infrastructure, "spec", "network").(object)
	controlPlane := c.refer(t, field(made, "spec", "controlPlaneRef"))
	workers := field(c.get(t, "machinedeployments", "-l", "cluster.x-k8s.io/cluster-name="+name), "items").([]any)
	if len(workers) != 1 {
		t.Fatalf("%d MachineDeployments", len(workers))
	}
	machine := c.firstMachine(t, name, infrastructure)
	kubernetes := r.Hashes.Versions.Kubernetes
	got := map[string]any{
		"region": field(infrastructure, "spec", "region"), "network": field(network, "vpc", "cidrBlock"),
		"key":             field(infrastructure, "spec", "sshKeyName"),
		"label":           field(controlPlane, "spec", "machineTemplate", "metadata", "labels", nodeImageLabel),
		"machine's label": field(machine, "metadata", "labels", nodeImageLabel),
		"machine's image": field(c.refer(t, field(machine, "spec", "infrastructureRef")), "spec", "imageLookupFormat"),
		"version":         field(controlPlane, "spec", "version"), "replicas": field(controlPlane, "spec", "replicas"),
		"init": field(controlPlane, "spec", "kubeadmConfigSpec", "initConfiguration", "nodeRegistration"),
		"join": field(controlPlane, "spec", "kubeadmConfigSpec", "joinConfiguration", "nodeRegistration"),
		"control plane": field(c.refer(t, field(controlPlane, "spec", "machineTemplate", "spec", "infrastructureRef")),
			"spec", "template", "spec"),
		"workers": field(c.refer(t, field(workers[0], "spec", "template", "spec", "infrastructureRef")),
			"spec", "template", "spec"),
		"workers join": field(c.refer(t, field(workers[0], "spec", "template", "spec", "bootstrap", "configRef")),
			"spec", "template", "spec", "joinConfiguration", "nodeRegistration"),
	}
	registration := object{"name": "{{ ds.meta_data.local_hostname }}",
		"kubeletExtraArgs": []any{object{"name": "cloud-provider", "value": "external"}}}
	image := "ubuntu-24.04-" + strings.TrimPrefix(kubernetes, "v") + "-v1"
	expected := map[string]any{
		"region": want["region"], "network": want["vpcCIDR"], "key": want["sshKeyName"],
		"label": image, "machine's label": image, "machine's image": imageLookupFormat,
		"version": kubernetes, "replicas": 3.0, "init": registration, "join": registration, "workers join": registration,
		"control plane": machineOf(want, "controlPlaneInstanceType", "controlPlaneInstanceProfile",
			"controlPlaneRootVolumeSize", 2),
		"workers": machineOf(want, "workerInstanceType", "nodeInstanceProfile", "workerRootVolumeSize", 1),
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Error(diff)
	}
}

// firstMachine plays the AWS provider, which reports the address of the API server, and returns the
// Machine that the control plane begins with.
func (c *cluster) firstMachine(t *testing.T, name string, infrastructure object) object {
	t.Helper()
	c.kubectl(t, nil, "patch", nameOf(infrastructure), "--type=merge",
		"--patch", `{"spec":{"controlPlaneEndpoint":{"host":"127.0.0.1","port":6443}}}`)
	c.kubectl(t, nil, "patch", nameOf(infrastructure), "--subresource=status", "--type=merge",
		"--patch", `{"status":{"ready":true}}`)
	selector := "cluster.x-k8s.io/control-plane,cluster.x-k8s.io/cluster-name=" + name
	c.kubectl(t, nil, "wait", "machines", "-l", selector, "--for=create", timeout)
	machines := field(c.get(t, "machines", "-l", selector), "items").([]any)
	if len(machines) != 1 {
		t.Fatalf("%d machines of the control plane", len(machines))
	}
	return machines[0].(object)
}

// machineOf is a template's whole machine, so that a field that the API server drops is missed.
func machineOf(want variables, instanceType, profile, size string, hops float64) object {
	machine := object{
		"instanceType": want[instanceType], "iamInstanceProfile": want[profile], "imageLookupOrg": want["imageOwner"],
		"imageLookupBaseOS": "ubuntu-24.04",
		"imageLookupFormat": imageLookupFormat,
		"rootVolume":        object{"size": want[size], "type": "gp3", "encrypted": true},
		"instanceMetadataOptions": object{"httpEndpoint": "enabled", "httpTokens": "required",
			"httpPutResponseHopLimit": hops,
			// These two and the next are defaults of the provider's definition.
			"httpProtocolIpv6": "disabled", "instanceMetadataTags": "disabled"},
		"hostAffinity": "default",
	}
	if key := want["sshKeyName"]; key != nil {
		machine["sshKeyName"] = key
	}
	return machine
}

// refer returns the object that a reference of the contract v1beta2 names.
func (c *cluster) refer(t *testing.T, reference any) object {
	t.Helper()
	group, _ := field(reference, "apiGroup").(string)
	kind, _ := field(reference, "kind").(string)
	name, _ := field(reference, "name").(string)
	return c.get(t, strings.ToLower(kind)+"."+group, name)
}
