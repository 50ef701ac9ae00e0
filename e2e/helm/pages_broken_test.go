package helm

import (
	"strings"
	"testing"
)

// brokenOnesAreRefused shows that the test can fail, for each way in which it looks at a block.
func (g *site) brokenOnesAreRefused(t *testing.T) {
	for name, row := range map[string]struct {
		language, text, want string
	}{
		"a language that nobody runs": {"perl", "print 1", "nobody knows"},
		"a quote that does not end":   {"sh", "echo 'x", "without closing quote"},
		"a loop that does not end":    {"sh", "for i in 1 2; do echo $i", "must end with"},
		"a variable that nobody set":  {"sh", "kubectl label namespace $TEAM a=b", "TEAM: unbound variable"},
		"a program that nobody knows": {"sh", "kubeclt get pods", "does not know this command"},
		"the same behind a pipe":      {"sh", "kubeclt get pods | cat || true", "does not know this command"},
		"the same in a substitution":  {"sh", "x=$(kubeclt get pods); echo $x", "does not know this command"},
		"a mask that is none":         {"sh", "umask rw", "octal"},
		"a folder that is not there":  {"sh", "cp /etc/kubernetes/nothing.yaml .", "No such file"},
		"a file that is not there":    {"sh", "cat < nothing", "no such file"},
		"a verb that kubectl has not": {"sh", "kubectl gett pods", "kubectl gett"},
		"a kind that nobody serves":   {"sh", "kubectl get nodepoools", "the server doesn't have a resource type"},
		"a flag that kubectl has not": {"sh", "kubectl get pods --wacht", "unknown flag"},
		"an object that is not there": {"sh", "kubectl -n stratos-system patch certificate nobody --type=merge -p '{}'",
			"not found"},
		"a label that is none": {"sh", "kubectl label namespace default stratos.sh/scheduler=a/b",
			"invalid label value"},
		"a patch that fits nothing": {"sh",
			`kubectl patch namespace default --type=json -p '[{"op": "remove", "path": "/spec/nothing"}]'`,
			"server rejected our request"},
		"apply of nothing":             {"sh", "kubectl apply", "want -f"},
		"apply of another site's text": {"sh", "kubectl apply -f http://example.com/x", "https"},
		"a field that a Pod has not": {"yaml",
			"apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\nspec: {container: []}", "container"},
		"a field that a container has not": {"yaml", "containers:\n- {name: a, image: a, imagePolicy: Never}", "imagePolicy"},
		"a key twice":                      {"yaml", "apiVersion: v1\napiVersion: v1\nkind: Pod", "already"},
		"a kind of nobody":                 {"yaml", "apiVersion: v1\nkind: Pot\nmetadata: {name: a}", "no matches for kind"},

		"a flag that Helm has not": {"sh", "helm install stratos " + ourChart +
			" --names stratos-system --set clusterName=a", "unknown flag"},
		"a value that the chart has not": {"sh", "helm install stratos " + ourChart +
			" --namespace stratos-system --set clusterName=a --set colour=red", "colour"},
		"a required value left out": {"sh", "helm install stratos " + ourChart + " --namespace stratos-system",
			"clusterName"},
		"a cloud that nobody has": {"sh", "helm install stratos " + ourChart +
			" --namespace stratos-system --set clusterName=a --set cloudProvider=gcp", "cloudProvider"},
		"an address that is none": {"sh", "helm upgrade stratos " + ourChart +
			" -n stratos-system --reuse-values --set scheduler.enabled=false --set extender.expose=true --set extender.service.clusterIP=10.96.0.500", "clusterIP"},
		"values that no object can have": {"sh", "helm upgrade stratos " + ourChart +
			" -n stratos-system --reuse-values --set-json 'tolerations=[{\"keys\":\"a\"}]'", "keys"},
		"a release that is not there": {"sh", "helm uninstall stratus --namespace stratos-system", "not found"},
		"a chart of somebody else": {"sh", "helm install stratos oci://example.com/stratos",
			"no chart that the test knows"},
		"a wrong flag for cert-manager": {"sh", "helm install cert-manager " + certManagerChart + " --namespaces a",
			"unknown flag"},
		"a verb that nobody checks": {"sh", "helm push stratos", "helm push"},
		"an option of ours that is wrong": {"sh", "stratos scheduler-config --wiring sideways --kubernetes-version 1.36",
			"wiring"},
		"a flag of ours that is none": {"sh", "stratos scheduler-config --wirings dedicated", "unknown flag"},
		"an unknown operation of AWS": {"sh", "aws eks make-cluster --name a", "does not know this command"},
		"a flag that AWS has not":     {"sh", "aws iam delete-role --role a", "unknown flag --role"},
		"a flag left out":             {"sh", "aws iam delete-role", "--role-name is missing"},
		"a flag without its value":    {"sh", "aws iam delete-role --role-name", "has the values"},
		"a query that nobody answers": {"sh", "aws sts get-caller-identity --query Acount --output text", "Acount"},
		"an ARN that is none": {"sh", "aws iam delete-policy --policy-arn arn:aws:iam:123456789012:policy/a",
			"does not match"},
		"a cluster file that is not there": {"sh", "eksctl create cluster -f nothing.yaml", "no such file"},
		"a field that eksctl has not": {"sh",
			"cat > c.yaml <<'EOF'\napiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nnodegroups: []\nEOF", "nodegroups"},
		"a field that kind has not": {"yaml",
			"apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\nnodes:\n- {roles: worker}", "roles"},
		"a field that kubeadm has not": {"yaml",
			"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclustername: a", "clustername"},
		"a key that the Secret has not": {"yaml",
			"apiVersion: controlplane.cluster.x-k8s.io/v1beta1\nkind: KubeadmControlPlane\nspec: {kubeadmConfigSpec: {files: [{path: /a, contentFrom: {secret: {name: a, key: b}}}]}}", `not "b"`},
		"a configuration made by hand": {"yaml",
			"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration", "nobody has generated"},

		"a policy of another version": {"json", `{"Version": "2012-10-18", "Statement": [{"Effect": "Allow"}]}`,
			"2012-10-18"},
		"a policy with a wrong key": {"json",
			`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Actions": "a"}]}`, "Actions"},
		"a policy for all machines": {"json", policyOf("ec2:StopInstances", "*", `{}`),
			"without a condition on aws:ResourceTag/stratos.sh/cluster"},
		"a policy for somebody else": {"json", policyOf("ec2:DeleteVpc", "*", `{}`), "never calls"},
		"a policy that allows too little": {"json", policyOf("ec2:DescribeInstances", "*", `{}`),
			"nothing allows ec2:StartInstances"},
		"a policy with a resource of nobody": {"json", policyOf("ec2:DescribeInstances", "arn:aws:ec2:instance/*", `{}`),
			"resource"},
		"a role that nobody can take": {"sh",
			`aws iam create-role --role-name a --assume-role-policy-document '{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}]}'`, "trusts nobody"},

		"a class that admission refuses": {"yaml", classWith("ami: ami-1", "'#!/bin/bash'"), "hexadecimal"},
		"a field that a class has not":   {"yaml", classWith("amiId: ami-0123456789abcdef0", "'#!/bin/bash'"), "amiId"},
		"user data that nothing runs": {"yaml", classWith("ami: ami-0123456789abcdef0", "'echo a'"),
			"cloud-init runs nothing"},
		"a script that does not parse": {"yaml", classWith("ami: ami-0123456789abcdef0",
			`"#!/bin/bash\nif true; then poweroff\n"`), "must end with"},
		"a script with a strange variable": {"yaml", classWith("ami: ami-0123456789abcdef0",
			`"#!/bin/bash\nkubeadm join $WHERE\npoweroff\n"`), "nobody sets $WHERE"},
		"the same in a script that it makes": {"yaml", classWith("ami: ami-0123456789abcdef0",
			`"#!/bin/bash\ncat > a <<'E'\n#!/bin/bash\necho $WHERE\nE\n"`), "nobody sets $WHERE"},
		"MIME without nodeadm's part": {"yaml", classWith("ami: ami-0123456789abcdef0",
			`"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/x-shellscript\n\n#!/bin/bash\npoweroff\n--b--\n"`), "no part for nodeadm"},
		"MIME that does not end": {"yaml", classWith("ami: ami-0123456789abcdef0",
			`"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/x-shellscript\n\n#!/bin/bash\n"`), "EOF"},
		"a field that nodeadm has not": {"yaml", classWith("ami: ami-0123456789abcdef0",
			`"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: application/node.eks.aws\n\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {clusters: {}}\n--b--\n"`), "clusters"},
		"a pool whose class is missing": {"yaml", poolWith("nobody", ""), "does not exist"},
		"a pool that the CRD refuses":   {"yaml", poolWith("off", "minStandby: 9"), "minStandby"},
		"a pool whose class never powers off": {"yaml", classWith("ami: ami-0123456789abcdef0",
			`"#!/bin/bash\nkubeadm join\n"`) + "---\n" + poolWith("off", "minStandby: 1"),
			"has no poweroff"},
		"a startup taint that nobody registers": {"yaml", classWith("ami: ami-0123456789abcdef0",
			`"#!/bin/bash\npoweroff\n"`) + "---\n" +
			strings.Replace(poolWith("off", "minStandby: 1"), "nodeClassRef",
				"startupTaints: [{key: a.b/c, effect: NoSchedule}], nodeClassRef", 1), "is not in the user data"},
	} {
		t.Run(name, func(t *testing.T) {
			err := g.reader(t).follow(t.Context(), block{language: row.language, text: row.text})
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("error %v, want one with %q, for\n%s", err, row.want, row.text)
			}
		})
	}
}

func policyOf(action, on, condition string) string {
	return `{"Version": "2012-10-17", "Statement": [{"Sid": "A", "Effect": "Allow", "Action": "` + action +
		`", "Resource": "` + on + `", "Condition": ` + condition + `}]}`
}

func classWith(image, userData string) string {
	return "apiVersion: stratos.sh/v1alpha1\nkind: AWSNodeClass\nmetadata: {name: \"off\"}\nspec:\n  instanceType: m5.large\n  " + image +
		"\n  subnetIds: [subnet-12345678]\n  securityGroupIds: [sg-12345678]\n  userData: " + userData + "\n"
}

func poolWith(class, more string) string {
	return "apiVersion: stratos.sh/v1alpha1\nkind: NodePool\nmetadata: {name: broken}\nspec:\n  poolSize: 3\n  " + more +
		"\n  template: {nodeClassRef: {kind: AWSNodeClass, name: \"" + class + "\"}}\n"
}
