package suite

import (
	"strings"
	"testing"
)

// faultyBlocksFail: what would not work for a reader fails the run, also where the script goes on.
func (r *reader) faultyBlocksFail(t *testing.T) {
	for name, row := range map[string]struct{ script, want string }{
		"unknown program":                   {"kubeclt get pods", "kubeclt: not found"},
		"unknown program before a pipe":     {"kubeclt get pods | cat || true", "kubeclt: not found"},
		"unknown program in a substitution": {"x=$(kubeclt get pods) || true", "kubeclt: not found"},
		"unset variable":                    {"kubectl label namespace $TEAM a=b", "TEAM: parameter not set"},
		"quote without an end":              {"echo 'x", "Unterminated quoted string"},
		"unknown chart":                     {"helm install stratos oci://example.com/stratos", "unknown chart"},
		"unknown flag for cert-manager": {"helm install a oci://quay.io/jetstack/charts/cert-manager --namespaces b",
			"unknown flag"},
		"unknown value of the chart": {"helm install stratos oci://ghcr.io/stratos-sh/charts/stratos " +
			"--namespace stratos-system --set clusterName=a --set colour=red", "colour"},
		"unknown call of AWS": {"aws iam delete-role --role a", "does not know the call aws iam delete-role --role a"},
		"missing file":        {"eksctl create cluster -f cluster.yaml", ""},
		"unknown field for kubeadm": {"printf 'apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n" +
			"clustername: a\n' >a.yaml; kubeadm init --config a.yaml", "clustername"},
		"warning of a webhook": {"kubectl apply --dry-run=server -f - <<EOF\napiVersion: stratos.sh/v1alpha1\nkind: NodePool\n" +
			"metadata: {name: broken}\nspec:\n  poolSize: 1\n  minStandby: 1\n" +
			"  template: {nodeClassRef: {kind: AWSNodeClass, name: none}}\nEOF", "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := r.run(t, row.script)
			if err == nil || !strings.Contains(out, row.want) {
				t.Errorf("error %v, want one; printed %q, want %q in it", err, out, row.want)
			}
		})
	}
}

// TestFaultyDocuments: the checks of what cannot run in the cluster find what is wrong.
func TestFaultyDocuments(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		want string
	}{
		"unknown field": {checkFields("apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\nnodes: [{roles: worker}]"),
			`"nodes.roles"`},
		"version that is a number": {checkFields("apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\nnodes: [{role: 1.34}]"),
			`"nodes.role:float64"`},
		"key twice": {checkFields("kind: a\nkind: b"), "already"},

		"policy of another version": {checkPolicy(`{"Version": "2012-10-18", "Statement": [{"Effect": "Allow"}]}`),
			"2012-10-18"},
		"policy with an unknown key": {checkPolicy(`{"Version": "2012-10-17", "Statement": [{"Actions": "a"}]}`), "Actions"},
		"policy for all instances": {checkPolicy(policyOf("ec2:StopInstances", "*")),
			"without a condition on aws:ResourceTag/stratos.sh/cluster"},
		"policy for user data too": {checkPolicy(policyOf("ec2:ModifyInstanceAttribute",
			"arn:aws:ec2:us-east-1:123456789012:volume/*")), "ec2:ModifyInstanceAttribute of attributes []"},
		"policy with an action too many": {checkPolicy(policyOf("ec2:DeleteVpc", "*")), "never calls"},
		"policy with an action too few": {checkPolicy(policyOf("ec2:DescribeInstances", "*")),
			"nothing allows ec2:StartInstances"},
		"policy with a faulty resource": {checkPolicy(policyOf("ec2:DescribeInstances", "arn:aws:ec2:instance/*")),
			"resource"},
		"role that no instance can take": {checkPolicy(`{"Version": "2012-10-17", "Statement": [{"Effect": "Deny",
			"Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}]}`), "trusts no instance"},
	} {
		if row.err == nil || !strings.Contains(row.err.Error(), row.want) {
			t.Errorf("%s: error %v, want one with %q", name, row.err, row.want)
		}
	}
}

func policyOf(action, on string) string {
	return `{"Version": "2012-10-17", "Statement": [{"Sid": "A", "Effect": "Allow", "Action": "` + action +
		`", "Resource": "` + on + `"}]}`
}
