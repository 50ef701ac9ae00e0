package cloudcheck_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/check"
	"github.com/stratos-sh/stratos/cmd/stratos/cloudcheck"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/limiter"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

const (
	clusterName = "e2e"
	general     = "general"
)

// account is a played account with one instance of ours, and what Stratos has read of its cluster.
type account struct {
	server *ec2test.Server
	cloud  *aws.Cloud
	facts  *check.Facts
	config map[string]string // the data of the ConfigMap aws-auth, nil for none
}

func newAccount(t *testing.T) *account {
	t.Helper()
	sim := simcloud.New(simcloud.Options{ProviderPrefix: ec2test.ProviderPrefix, ClusterName: clusterName,
		Times: simcloud.Times{Boot: -1, Stop: -1, Pull: -1}})
	a := &account{server: ec2test.New(sim, ec2test.Options{Limits: &ec2test.Limits{}})}
	wire := httptest.NewServer(a.server)
	t.Cleanup(wire.Close)
	for key, value := range map[string]string{
		"AWS_ENDPOINT_URL": wire.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKID",
		"AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(key, value)
	}
	config, err := aws.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	calls, err := limiter.NewCalls("aws", limiter.New(nil), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	a.cloud = aws.New(aws.Options{Config: config, ClusterName: clusterName, Calls: calls})
	a.facts = factsOf(general)
	a.launch(t)
	return a
}

// launch launches an instance with the tags of the cluster.
func (a *account) launch(t *testing.T) *provider.Instance {
	t.Helper()
	class := classOf(a.facts)
	i, err := a.cloud.LaunchInstance(t.Context(), class, provider.LaunchRequest{ClientToken: "t", Tags: map[string]string{
		v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: clusterName,
	}})
	if err != nil {
		t.Fatal(err)
	}
	await(t, a.cloud, string(i.ID), provider.InstanceRunning)
	return i
}

// await returns when the instance is in the state.
func await(t *testing.T, cloud *aws.Cloud, id string, want provider.InstanceState) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for state := provider.InstanceUnknown; state != want; {
		var err error
		if state, err = cloud.GetInstanceState(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
}

func factsOf(class string) *check.Facts {
	c := &v1alpha1.AWSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: class}}
	c.Spec = v1alpha1.AWSNodeClassSpec{
		InstanceType: "m5.large", AMI: "ami-0123456789abcdef0", IAMInstanceProfile: "node-role",
		SubnetIDs: []string{"subnet-12345678"}, SecurityGroupIDs: []string{"sg-12345678"},
		Bootstrap: &v1alpha1.Bootstrap{Family: v1alpha1.FamilyAL2023},
	}
	c.Status = v1alpha1.AWSNodeClassStatus{
		AMI: "ami-0123456789abcdef0", SecurityGroups: []string{"sg-12345678"},
		Subnets: []v1alpha1.ResolvedSubnet{{ID: "subnet-12345678", Zone: "us-east-1a"}},
		Bootstrap: &v1alpha1.BootstrapStatus{Family: v1alpha1.FamilyAL2023, Cluster: v1alpha1.BootstrapCluster{
			Name: clusterName, Endpoint: simcloud.ClusterEndpoint, CertificateAuthority: simcloud.ClusterCA(),
			ServiceCIDR: simcloud.ClusterServiceCIDR,
		}},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
	}
	f := &check.Facts{Installation: check.Installation{ClusterName: clusterName}}
	f.Classes.Value = []v1alpha1.NodeClass{c}
	return f
}

func classOf(f *check.Facts) *v1alpha1.AWSNodeClass {
	class, _ := f.Classes.Value[0].(*v1alpha1.AWSNodeClass)
	return class
}

// lines asks the account and returns what the checks say.
func (a *account) lines(t *testing.T) []check.Result {
	t.Helper()
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid"}}}
	if a.config != nil {
		objects = append(objects, &corev1.ConfigMap{Data: a.config,
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "aws-auth"}})
	}
	reader := fake.NewClientBuilder().WithObjects(objects...).Build()
	answers := cloudcheck.Gather(t.Context(), reader, a.cloud.Checker(), a.facts)
	return cloudcheck.Cloud(&answers)
}

// denied answers the action as EC2, EKS and IAM do without a permission.
func (a *account) denied(action ec2test.Action) {
	code := map[ec2test.Action]string{ec2test.DescribeCluster: "AccessDeniedException",
		ec2test.DescribeAccessEntry: "AccessDeniedException", ec2test.GetInstanceProfile: "AccessDenied"}[action]
	if code == "" {
		code = "UnauthorizedOperation"
	}
	a.server.Script(ec2test.Failure{Action: action, Error: ec2test.Error{Code: code, Status: http.StatusForbidden,
		Message: "You are not authorized to perform: " + string(action) + " Encoded authorization failure message: 4Gx"}})
}

// answers has EC2 answer the action with an error.
func (a *account) answers(action ec2test.Action, code, words string) {
	a.server.Script(ec2test.Failure{Action: action, Error: ec2test.Error{Code: code, Message: words}})
}

// cluster changes the account's cluster of EKS.
func (a *account) cluster(mode string, entries map[string]string) {
	a.server.SetCluster(ec2test.Cluster{Name: clusterName, Region: "us-east-1", Endpoint: simcloud.ClusterEndpoint,
		CertificateAuthority: simcloud.ClusterCA(), ServiceIPv4: simcloud.ClusterServiceCIDR, AuthenticationMode: mode,
		AccessEntries: entries})
}

// TestCloud: each change of a sound account changes the status of one line.
func TestCloud(t *testing.T) {
	const allow = "aws iam create-policy-version --set-as-default --policy-arn arn:aws:iam::123456789012:policy/stratos-e2e"
	launch := "RunInstances " + general
	for name, c := range map[string]struct {
		change func(*account)
		want   check.Result
	}{
		"nothing": {change: func(*account) {}},
		"launches are denied": {func(a *account) { a.denied(ec2test.RunInstances) },
			check.Result{Name: launch, Status: check.Wrong, Words: "not authorized to perform: RunInstances", Repair: allow}},
		"starts are denied": {func(a *account) { a.denied(ec2test.StartInstances) },
			check.Result{Name: "StartInstances", Status: check.Wrong, Words: "not authorized", Repair: allow}},
		"stops are denied": {func(a *account) { a.denied(ec2test.StopInstances) },
			check.Result{Name: "StopInstances", Status: check.Wrong, Words: "not authorized", Repair: allow}},
		"terminations are denied": {func(a *account) { a.denied(ec2test.TerminateInstances) },
			check.Result{Name: "TerminateInstances", Status: check.Wrong, Words: "not authorized", Repair: allow}},
		"tags are denied": {func(a *account) { a.denied(ec2test.CreateTags) },
			check.Result{Name: "CreateTags", Status: check.Wrong, Words: "not authorized", Repair: allow}},
		"a launch is wrong": {func(a *account) {
			a.answers(ec2test.RunInstances, "InvalidAMIID.NotFound", "no image")
		}, check.Result{Name: launch, Status: check.Wrong, Words: "no image",
			Repair: "kubectl edit awsnodeclasses.stratos.sh general"}},
		"EC2 is out of order": {func(a *account) {
			a.answers(ec2test.CreateTags, "Odd", "what")
		}, check.Result{Name: "CreateTags", Status: check.NotChecked, Words: "what"}},
		"a class that is not ready": {func(a *account) { classOf(a.facts).Status.Conditions = nil },
			check.Result{Name: launch, Status: check.NotChecked, Words: "not Ready"}},
		"the state forbids it": {func(a *account) {
			a.answers(ec2test.StartInstances, "IncorrectInstanceState", "no")
		}, check.Result{Name: "StartInstances", Status: check.OK, Words: "not in the present state"}},
		"no access entry": {func(a *account) { a.cluster("API", nil) }, check.Result{Name: "node role", Status: check.Wrong,
			Words:  ec2test.NodeRole + " may not join e2e",
			Repair: "aws eks create-access-entry --cluster-name e2e --principal-arn " + ec2test.NodeRole + " --type EC2_LINUX"}},
		"an access entry of another type": {func(a *account) { a.cluster("API", map[string]string{ec2test.NodeRole: "STANDARD"}) },
			check.Result{Name: "node role", Status: check.Wrong, Words: "is of type STANDARD",
				Repair: "aws eks delete-access-entry"}},
		"no entry, and aws-auth without the role": {func(a *account) {
			a.cluster("API_AND_CONFIG_MAP", nil)
			a.config = mapRoles("arn:aws:iam::1:role/other")
		},
			check.Result{Name: "node role", Status: check.Wrong, Words: "may not join", Repair: "aws eks create-access-entry"}},
		"aws-auth": {change: func(a *account) { a.cluster("CONFIG_MAP", nil); a.config = mapRoles(ec2test.NodeRole) }},
		"aws-auth without the role": {func(a *account) { a.cluster("CONFIG_MAP", map[string]string{ec2test.NodeRole: "EC2_LINUX"}) },
			check.Result{Name: "node role", Status: check.Wrong, Words: "may not join",
				Repair: "eksctl create iamidentitymapping"}},
		"aws-auth beside entries": {change: func(a *account) { a.cluster("API_AND_CONFIG_MAP", nil); a.config = mapRoles(ec2test.NodeRole) }},
		"aws-auth does not count": {func(a *account) { a.cluster("API", nil); a.config = mapRoles(ec2test.NodeRole) },
			check.Result{Name: "node role", Status: check.Wrong, Words: "may not join", Repair: "create-access-entry"}},
		"aws-auth is broken": {func(a *account) { a.cluster("CONFIG_MAP", nil); a.config = map[string]string{"mapRoles": "{"} },
			check.Result{Name: "node role", Status: check.NotChecked, Words: "aws-auth"}},
		"entries are not read": {func(a *account) { a.denied(ec2test.DescribeAccessEntry) },
			check.Result{Name: "node role", Status: check.NotChecked, Words: "its access entry cannot be read"}},
		"profiles are not read": {func(a *account) { a.denied(ec2test.GetInstanceProfile) },
			check.Result{Name: "node role", Status: check.NotChecked, Words: "its role is not known: GetInstanceProfile: You are not authorized"}},
		"a profile that is not": {func(a *account) { classOf(a.facts).Spec.IAMInstanceProfile = "other" },
			check.Result{Name: "node role", Status: check.Wrong, Words: "Instance Profile other cannot be found",
				Repair: "aws iam list-instance-profiles"}},
		"no profile": {func(a *account) { classOf(a.facts).Spec.IAMInstanceProfile = "" },
			check.Result{Name: "node role", Status: check.Wrong, Words: "no iamInstanceProfile", Repair: "kubectl edit"}},
		"a KMS key": {func(a *account) {
			classOf(a.facts).Spec.BlockDeviceMappings = []v1alpha1.BlockDeviceMapping{{
				DeviceName: "/dev/xvda", Encrypted: new(true),
				KMSKeyID: "arn:aws:kms:us-east-1:1:key/k"}}
		}, check.Result{Name: "kms keys", Status: check.NotChecked, Words: general}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount(t)
			before := a.lines(t)
			c.change(a)
			mustDiffer(t, before, a.lines(t), c.want)
		})
	}
}

func mapRoles(role string) map[string]string {
	return map[string]string{"mapRoles": "- rolearn: " + role + "\n  groups: [system:bootstrappers, system:nodes]\n"}
}

// mustDiffer fails the test unless all lines are OK before, and after that the one that is wanted
// alone has another status or other words.
func mustDiffer(t *testing.T, before, after []check.Result, want check.Result) {
	t.Helper()
	for i, r := range after {
		if b := before[i]; b.Status != check.OK || b.Name != r.Name {
			t.Errorf("before: %+v", b)
		}
		if r.Name != want.Name {
			if r != before[i] {
				t.Errorf("%+v has become %+v", before[i], r)
			}
			continue
		}
		if r.Status != want.Status || !strings.Contains(r.Words, want.Words) || !strings.Contains(r.Repair, want.Repair) {
			t.Errorf("got %+v, want %+v", r, want)
		}
		if strings.Contains(r.Words, "4Gx") {
			t.Errorf("the encoded part is in %q", r.Words)
		}
	}
	if want.Name != "" && !slices.ContainsFunc(after, func(r check.Result) bool { return r.Name == want.Name }) {
		t.Errorf("no line %s in %+v", want.Name, after)
	}
}

// TestCloudByAPolicy: dry runs are answered by the policy that the page gives, for the instances of
// this cluster alone.
func TestCloudByAPolicy(t *testing.T) {
	a := newAccount(t)
	for name, c := range map[string]struct{ cluster, without, wrong string }{
		"as it is":             {cluster: clusterName},
		"of another cluster":   {cluster: "other", wrong: "RunInstances general, StartInstances, StopInstances, TerminateInstances, CreateTags"},
		"without terminations": {cluster: clusterName, without: `, "ec2:TerminateInstances"`, wrong: "TerminateInstances"},
	} {
		t.Run(name, func(t *testing.T) {
			a.server.SetPolicy(policyOf(t, c.cluster, c.without))
			var wrong []string
			for _, r := range a.lines(t) {
				if r.Status == check.Wrong {
					wrong = append(wrong, r.Name)
				}
			}
			if got := strings.Join(wrong, ", "); got != c.wrong {
				t.Errorf("wrong: %s, want %s", got, c.wrong)
			}
		})
	}
}

// policyOf is the policy that the page gives for a cluster, without a part of its text.
func policyOf(t *testing.T, cluster, without string) *ec2test.Policy {
	t.Helper()
	text, err := os.ReadFile("../../../docs/aws-iam-policy.json")
	if err != nil {
		t.Fatal(err)
	}
	policy, err := ec2test.ParsePolicy([]byte(strings.Replace(string(text), without, "", 1)),
		strings.NewReplacer("REGION", "us-east-1", "ACCOUNT", "123456789012", "CLUSTER", cluster))
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// TestCloudChangesNothing: no call has an effect.
func TestCloudChangesNothing(t *testing.T) {
	a := newAccount(t)
	began := len(a.server.Requests())
	a.lines(t)
	for _, r := range a.server.Requests()[began:] {
		if strings.HasPrefix(string(r.Action), "Describe") || strings.HasPrefix(string(r.Action), "Get") {
			continue
		}
		if r.Params["DryRun"] != "true" || r.Code != "DryRunOperation" {
			t.Errorf("%s with %v was answered %q", r.Action, r.Params, r.Code)
		}
	}
}

// TestCloudBeforeThereIsAnything: without an instance, and with a class of each other kind.
func TestCloudBeforeThereIsAnything(t *testing.T) {
	a := newAccount(t)
	a.facts.Installation.ClusterName = "new"
	class := classOf(a.facts)
	class.Spec.Bootstrap = &v1alpha1.Bootstrap{Family: v1alpha1.FamilyKubeadm}
	class.Spec.IAMInstanceProfile = ""
	want := map[string]string{
		"StartInstances": "no instance of this cluster yet", "StopInstances": "no instance", "TerminateInstances": "no instance",
		"CreateTags": "no instance", "DescribeCluster": "no class needs it", "node role": "no class joins by a role",
	}
	for _, r := range a.lines(t) {
		if words, ok := want[r.Name]; ok && (!strings.Contains(r.Words, words) || r.Status == check.Wrong) {
			t.Errorf("got %+v, want %q", r, words)
		}
	}
}

// TestDescribeClusterLine: the permission is needed where a class leaves out what only EKS says.
func TestDescribeClusterLine(t *testing.T) {
	denied := &provider.UnauthorizedError{Operation: "DescribeCluster", Reason: "no"}
	missing := &provider.InvalidConfigError{Field: "DescribeCluster", Reason: "No cluster found"}
	for name, c := range map[string]struct {
		err   error
		needs bool
		want  check.Status
	}{
		"allowed":                      {nil, true, check.OK},
		"denied, and needed":           {denied, true, check.Wrong},
		"denied, and not needed":       {denied, false, check.NotChecked},
		"another name":                 {missing, true, check.Wrong},
		"another name, and not needed": {missing, false, check.NotChecked},
		"no answer":                    {errors.New("timeout"), true, check.NotChecked},
	} {
		t.Run(name, func(t *testing.T) {
			f := &cloudcheck.CloudFacts{NeedsEKS: c.needs, Cluster: clusterName}
			f.Mode.Err = c.err
			for _, r := range cloudcheck.Cloud(f) {
				if r.Name == "DescribeCluster" && r.Status != c.want {
					t.Errorf("got %+v, want %s", r, c.want)
				}
			}
		})
	}
}

// TestTypeChangeLine: the permission is needed where a class has fallbackInstanceTypes, and is
// tried on a stopped instance of a pool of it.
func TestTypeChangeLine(t *testing.T) {
	without := func(p *ec2test.Policy) {
		p.Statement = slices.DeleteFunc(p.Statement, func(s ec2test.Statement) bool {
			return s.Condition["StringEquals"]["ec2:Attribute"] != ""
		})
	}
	for name, c := range map[string]struct {
		change func(*account)
		policy func(*ec2test.Policy)
		want   check.Result
	}{
		"allowed": {want: check.Result{Status: check.OK, Words: "allowed, by a dry run on i-"}},
		"the statement is left out": {policy: without, want: check.Result{Status: check.Wrong,
			Words: "the statement ChangeTypeOfStoppedInstances of the policy", Repair: "aws iam create-policy-version"}},
		"EC2 has no key for the attribute": {policy: func(p *ec2test.Policy) { p.NoAttributeKey = true },
			want: check.Result{Status: check.Wrong, Words: "ec2:ModifyInstanceAttribute", Repair: "aws iam"}},
		"left out, and not needed": {change: func(a *account) { classOf(a.facts).Spec.FallbackInstanceTypes = nil },
			policy: without, want: check.Result{Status: check.OK, Words: "no class has fallbackInstanceTypes"}},
		"no instance of such a class": {change: func(a *account) { a.facts.Pools.Value = nil },
			want: check.Result{Status: check.NotChecked, Words: "no class with fallbackInstanceTypes has a stopped instance"}},
		"EC2 is out of order": {change: func(a *account) { a.answers(ec2test.ModifyInstanceAttribute, "Odd", "what") },
			want: check.Result{Status: check.NotChecked, Words: "what"}},
		"no list of instances": {change: func(a *account) { a.denied(ec2test.DescribeInstances) },
			want: check.Result{Status: check.NotChecked, Words: "cannot be listed"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount(t)
			a.standby(t)
			if c.change != nil {
				c.change(a)
			}
			p := policyOf(t, clusterName, "")
			if c.policy != nil {
				c.policy(p)
			}
			a.server.SetPolicy(p)
			for _, r := range a.lines(t) {
				if r.Name == "ModifyInstanceAttribute" && (r.Status != c.want.Status ||
					!strings.Contains(r.Words, c.want.Words) || !strings.Contains(r.Repair, c.want.Repair)) {
					t.Errorf("got %+v, want %+v", r, c.want)
				}
			}
		})
	}
}

// TestReservationLine: the permission is needed where a class has a capacityReservation.
func TestReservationLine(t *testing.T) {
	const op = "ModifyInstanceCapacityReservationAttributes"
	a := newAccount(t)
	a.standby(t)
	line := func() check.Result {
		for _, r := range a.lines(t) {
			if r.Name == op {
				return r
			}
		}
		t.Fatal("there is no line")
		return check.Result{}
	}
	a.server.SetPolicy(policyOf(t, clusterName, ""))
	if r := line(); r.Status != check.OK || r.Words != "no class has capacityReservation" {
		t.Errorf("no class needs it: %+v", r)
	}
	classOf(a.facts).Spec.CapacityReservation = &v1alpha1.CapacityReservation{Preference: v1alpha1.ReservationNone}
	if r := line(); r.Status != check.OK || !strings.Contains(r.Words, "allowed, by a dry run on i-") {
		t.Errorf("allowed: %+v", r)
	}
	p := policyOf(t, clusterName, "")
	p.Statement = slices.DeleteFunc(p.Statement,
		func(s ec2test.Statement) bool { return slices.Contains(s.Action, "ec2:"+op) })
	a.server.SetPolicy(p)
	if r := line(); r.Status != check.Wrong || !strings.Contains(r.Words, "the statement ReserveForStoppedInstances") {
		t.Errorf("left out: %+v", r)
	}
}

// standby makes the instance a stopped one of a pool, whose class has a fallback type.
func (a *account) standby(t *testing.T) {
	t.Helper()
	classOf(a.facts).Spec.FallbackInstanceTypes = []string{"m5.xlarge"}
	pool := v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pool.Spec.Template.NodeClassRef = v1alpha1.NodeClassRef{Kind: v1alpha1.KindAWSNodeClass, Name: general}
	a.facts.Pools.Value = []v1alpha1.NodePool{pool}
	all, err := a.cloud.ListInstances(t.Context(), nil)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d instances, %v", len(all), err)
	}
	id := string(all[0].ID)
	if err := errors.Join(a.cloud.UpdateInstanceTags(t.Context(), id, map[string]string{v1alpha1.LabelPool: "p"}),
		a.cloud.StopInstance(t.Context(), id, true)); err != nil {
		t.Fatal(err)
	}
	await(t, a.cloud, id, provider.InstanceStopped)
}
