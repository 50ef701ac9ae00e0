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
		"version that is a number": {checkFields(strings.Replace(nodeConfig, "name: a", "name: 1.34", 1)),
			`"spec.cluster.name:float64"`},
		"key twice": {checkFields("kind: a\nkind: b"), "already"},

		"policy of another version": {checkPolicy(`{"Version": "2012-10-18", "Statement": [{"Effect": "Allow"}]}`),
			"2012-10-18"},
		"policy with an unknown key": {checkPolicy(`{"Version": "2012-10-17", "Statement": [{"Actions": "a"}]}`), "Actions"},
		"policy for all instances": {checkPolicy(policyOf("ec2:StopInstances", "*")),
			"without a condition on aws:ResourceTag/stratos.sh/cluster"},
		"policy with an action too many": {checkPolicy(policyOf("ec2:DeleteVpc", "*")), "never calls"},
		"policy with an action too few": {checkPolicy(policyOf("ec2:DescribeInstances", "*")),
			"nothing allows ec2:StartInstances"},
		"policy with a faulty resource": {checkPolicy(policyOf("ec2:DescribeInstances", "arn:aws:ec2:instance/*")),
			"resource"},
		"role that no instance can take": {checkPolicy(`{"Version": "2012-10-17", "Statement": [{"Effect": "Deny",
			"Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}]}`), "trusts no instance"},

		"user data of another kind":   {checkUserData("echo a"), "neither a script nor MIME"},
		"script that does not parse":  {checkUserData("#!/bin/bash\nif true; then poweroff\n"), "bash -n"},
		"script with a variable":      {checkUserData("#!/bin/bash\nkubeadm join $WHERE\n"), "nothing sets $WHERE"},
		"script in a script":          {checkUserData("#!/bin/bash\ncat > a <<'E'\n#!/bin/bash\nif\nE\n"), "bash -n"},
		"MIME without nodeadm's part": {checkUserData(mimeOf("text/x-shellscript", "#!/bin/bash\npoweroff\n")), "no part for nodeadm"},
		"MIME that does not end": {checkUserData(strings.TrimSuffix(mimeOf("text/x-shellscript", "#!/bin/bash\npoweroff\n"), "--b--\n")),
			"EOF"},
		"unknown field of nodeadm": {checkUserData(mimeOf("application/node.eks.aws", nodeConfig+"  clusters: a\n")),
			"spec.clusters"},
		"document of another version": {checkUserData(mimeOf("application/node.eks.aws",
			strings.Replace(nodeConfig, "v1alpha1", "v2", 1))), "spec.cluster.cidr"},
	} {
		if row.err == nil || !strings.Contains(row.err.Error(), row.want) {
			t.Errorf("%s: error %v, want one with %q", name, row.err, row.want)
		}
	}
}

const nodeConfig = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: a, apiServerEndpoint: b, certificateAuthority: c, cidr: d}
  kubelet: {flags: [e]}
`

func policyOf(action, on string) string {
	return `{"Version": "2012-10-17", "Statement": [{"Sid": "A", "Effect": "Allow", "Action": "` + action +
		`", "Resource": "` + on + `"}]}`
}

func mimeOf(kind, part string) string {
	return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: " + kind + "\n\n" + part +
		"--b--\n"
}
