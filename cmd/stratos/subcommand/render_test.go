package subcommand

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/userdata"
)

// testCA is base64 of a certificate in PEM. Nothing looks into the certificate.
const testCA = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="

func classNamed(name string, change ...func(*v1alpha1.AWSNodeClass)) *v1alpha1.AWSNodeClass {
	c := &v1alpha1.AWSNodeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: "AWSNodeClass"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	c.Spec.InstanceType = "m5.large"
	for _, f := range change {
		f(c)
	}
	return c
}

// joinsBy gives the class a bootstrap of the family with the cluster.
func joinsBy(family v1alpha1.BootstrapFamily, cluster v1alpha1.BootstrapCluster) func(*v1alpha1.AWSNodeClass) {
	return func(c *v1alpha1.AWSNodeClass) {
		c.Spec.Bootstrap = &v1alpha1.Bootstrap{Family: family, Cluster: cluster}
	}
}

func resolvedTo(cluster v1alpha1.BootstrapCluster) func(*v1alpha1.AWSNodeClass) {
	return func(c *v1alpha1.AWSNodeClass) {
		c.Status.Bootstrap = &v1alpha1.BootstrapStatus{Family: c.Spec.BootstrapFamily(), Cluster: cluster}
	}
}

func poolOf(name, class string) *v1alpha1.NodePool {
	p := &v1alpha1.NodePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: "NodePool"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	p.Spec.Template.NodeClassRef = v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: class}
	p.Spec.Template.Labels = map[string]v1alpha1.LabelValue{"example.com/pool": name}
	p.Spec.Template.Taints = []v1alpha1.Taint{{Key: "dedicated", Value: "web", Effect: "NoSchedule"}}
	return p
}

func testCluster() v1alpha1.BootstrapCluster {
	return v1alpha1.BootstrapCluster{Name: "c", Endpoint: "https://10.0.0.1:6443", CertificateAuthority: testCA,
		ServiceCIDR: "10.96.0.0/12"}
}

// launched is what a launch of the pool with the class sends.
func launched(t *testing.T, class *v1alpha1.AWSNodeClass, pool *v1alpha1.NodePool,
	cluster v1alpha1.BootstrapCluster) string {
	t.Helper()
	r := provider.RegistrationOf(pool)
	r.BootstrapToken = userdata.PlaceholderToken
	text, err := userdata.OfLaunch(&class.Spec,
		&v1alpha1.BootstrapStatus{Family: class.Spec.BootstrapFamily(), Cluster: cluster}, r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRenderUserData: each row is run with the objects in a cluster, and with the same in a file.
func TestRenderUserData(t *testing.T) {
	all := testCluster()
	kubeadm := v1alpha1.BootstrapCluster{Endpoint: all.Endpoint, CertificateAuthority: all.CertificateAuthority}
	al2023 := classNamed("al2023", joinsBy(v1alpha1.FamilyAL2023, all))
	bare := classNamed("bare", joinsBy(v1alpha1.FamilyAL2023, v1alpha1.BootstrapCluster{}))
	resolved := classNamed("bare", joinsBy(v1alpha1.FamilyAL2023, v1alpha1.BootstrapCluster{Endpoint: "https://own"}), resolvedTo(all))
	mixed := all
	mixed.Endpoint = "https://own"
	byKubeadm := classNamed("kubeadm", joinsBy(v1alpha1.FamilyKubeadm, kubeadm))
	hand := classNamed("hand", func(c *v1alpha1.AWSNodeClass) { c.Spec.UserData = "#!/bin/sh\necho\n" })
	joins := classNamed("joins", joinsBy(v1alpha1.FamilyKubeadm, kubeadm),
		func(c *v1alpha1.AWSNodeClass) { c.Spec.UserData = "#!/bin/sh\nkubeadm join x\n" })
	kind := poolOf("kind", "al2023")
	kind.Spec.Template.NodeClassRef.Kind = v1alpha1.KindKindNodeClass
	for name, c := range map[string]struct {
		objects     []client.Object
		class, pool string
		want        string
		isWarned    bool
		err         string
	}{
		"the only pool and its class": {objects: []client.Object{al2023, hand, poolOf("a", "al2023")},
			want: launched(t, al2023, poolOf("a", "al2023"), all)},
		"one pool of several": {objects: []client.Object{al2023, poolOf("a", "al2023"), poolOf("b", "al2023")}, pool: "b",
			want: launched(t, al2023, poolOf("b", "al2023"), all)},
		"a pool with another class than its own": {objects: []client.Object{al2023, hand, poolOf("a", "hand")}, class: "al2023",
			want: launched(t, al2023, poolOf("a", "hand"), all)},
		"what the class leaves out has been resolved": {objects: []client.Object{resolved, poolOf("a", "bare")},
			want: launched(t, resolved, poolOf("a", "bare"), mixed)},
		"a token that is none": {objects: []client.Object{byKubeadm, poolOf("a", "kubeadm")}, isWarned: true,
			want: launched(t, byKubeadm, poolOf("a", "kubeadm"), kubeadm)},
		"a class without bootstrap, and no pool": {objects: []client.Object{hand}, want: hand.Spec.UserData},
		"a class without bootstrap, and several pools": {objects: []client.Object{hand, poolOf("a", "x"), poolOf("b", "x")},
			class: "hand", want: hand.Spec.UserData},
		"a class without bootstrap, and a pool that is not there": {objects: []client.Object{hand, poolOf("a", "x")},
			class: "hand", pool: "z", err: "--pool: there is no NodePool z"},
		"bootstrap and several pools": {objects: []client.Object{al2023, poolOf("a", "al2023"), poolOf("b", "al2023")},
			class: "al2023", err: "--pool must be set to one of: a, b"},
		"nothing is resolved": {objects: []client.Object{bare, poolOf("a", "bare")},
			err: "AWSNodeClass bare: spec.bootstrap.cluster lacks name, endpoint, certificateAuthority and serviceCIDR"},
		"what the user wrote is refused": {objects: []client.Object{joins, poolOf("a", "joins")},
			err: "AWSNodeClass joins: spec.userData: kubeadm join is not allowed"},
		"no family": {objects: []client.Object{classNamed("x", joinsBy("", all)), poolOf("a", "x")},
			err: "AWSNodeClass x: spec.bootstrap.family must be set"},
		"several pools": {objects: []client.Object{al2023, poolOf("a", "al2023"), poolOf("b", "al2023")},
			err: "--pool must be set to one of: a, b"},
		"several classes and no pool": {objects: []client.Object{al2023, hand},
			err: "--class must be set to one of: al2023, hand"},
		"no pool of that name": {objects: []client.Object{al2023, poolOf("a", "al2023")}, pool: "z",
			err: "--pool: there is no NodePool z"},
		"no class of that name": {objects: []client.Object{al2023, poolOf("a", "al2023")}, class: "z",
			err: "--class: there is no AWSNodeClass z"},
		"no class of the pool": {objects: []client.Object{al2023, poolOf("a", "z")},
			err: "NodePool a: spec.template.nodeClassRef.name: there is no AWSNodeClass z"},
		"a pool of another kind of class": {objects: []client.Object{al2023, kind},
			err: "NodePool kind: spec.template.nodeClassRef.kind is KindNodeClass, which has no user data"},
		"bootstrap and no pool": {objects: []client.Object{al2023}, err: "--pool: there is no NodePool"},
		"nothing":               {err: "--class: there is no AWSNodeClass"},
	} {
		for from, read := range map[string]func() (objects, error){
			"cluster": func() (objects, error) { return objectsOfCluster(context.Background(), apiWith(t, c.objects)) },
			"file":    func() (objects, error) { return objectsOfFile(strings.NewReader(asYAML(t, c.objects))) },
		} {
			t.Run(from+"/"+name, func(t *testing.T) {
				found, err := read()
				if err != nil {
					t.Fatal(err)
				}
				var out, warned bytes.Buffer
				err = found.render(&out, &warned, c.class, c.pool)
				if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				if out.String() != c.want {
					t.Errorf("got\n%s\nwant\n%s", out.String(), c.want)
				}
				if got := strings.Contains(warned.String(), userdata.PlaceholderToken); got != c.isWarned {
					t.Errorf("warned of the token: %t, want %t", got, c.isWarned)
				}
			})
		}
	}
}

func apiWith(t *testing.T, objects []client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func asYAML(t *testing.T, objects []client.Object) string {
	t.Helper()
	text := "# nothing but a comment\n---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: other\n"
	for _, o := range objects {
		text += "---\n" + yamlOf(t, o)
	}
	return text
}

// TestRenderUserDataOfAFile runs the command, with a file and with stdin.
func TestRenderUserDataOfAFile(t *testing.T) {
	hand := classNamed("hand", func(c *v1alpha1.AWSNodeClass) { c.Spec.UserData = "#!/bin/sh\necho\n" })
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(asYAML(t, []client.Object{hand})), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ file, stdin, want, err string }{
		"a file":                {file: path, want: hand.Spec.UserData},
		"stdin":                 {file: "-", stdin: asYAML(t, []client.Object{hand}), want: hand.Spec.UserData},
		"a file that is not":    {file: path + "x", err: "-f: open"},
		"text that is not YAML": {file: "-", stdin: "a: b: c\n", err: "-f: document 1: "},
		"a field that is mistyped": {file: "-", stdin: strings.Replace(asYAML(t, []client.Object{hand}), "userData", "userdata", 1),
			err: `-f: document 3: strict decoding error: unknown field "spec.userdata"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			cmd := renderCommand()
			cmd.SetArgs([]string{"userdata", "-f", c.file})
			cmd.SetIn(strings.NewReader(c.stdin))
			cmd.SetOut(&out)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			err := cmd.ExecuteContext(context.Background())
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if out.String() != c.want {
				t.Errorf("got %q, want %q", out.String(), c.want)
			}
		})
	}
}

func yamlOf(t *testing.T, o client.Object) string {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
