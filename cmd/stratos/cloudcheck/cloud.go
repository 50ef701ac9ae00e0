// Package cloudcheck finds out what keeps an installation of Stratos from using its cloud, by calls
// that change nothing. Gather asks, and Cloud makes results of the answers without any I/O.
package cloudcheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/cmd/kubectl-stratos/check"
	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/limiter"
)

const (
	nameCloud           = "cloud"
	nameCloudIdentity   = "cloud identity"
	nameDescribeCluster = "DescribeCluster"
	nameNodeRole        = "node role"
	nameKeys            = "kms keys"
	// statementOfTypes is the one of the policy of docs/install.md that lets Stratos change types.
	statementOfTypes = "ChangeTypeOfStoppedInstances"
	// statementOfReservations lets it set their reservations.
	statementOfReservations = "ReserveForStoppedInstances"
)

// The authentication modes of EKS in which the ConfigMap aws-auth counts.
const (
	modeConfigMap = "CONFIG_MAP"
	modeBoth      = "API_AND_CONFIG_MAP"
	// entryType is the type of access entries for nodes that AWS does not manage.
	entryType = "EC2_LINUX"
)

// Cloud checks the answers of the cloud, in the order of the lines.
func Cloud(c *CloudFacts) []check.Result {
	results := []check.Result{cloudIdentity(c)}
	for _, l := range c.Launches {
		results = append(results, c.launch(l))
	}
	for _, op := range operations() {
		results = append(results, c.operation(op))
	}
	return append(results,
		c.stoppedChange(limiter.ModifyInstanceAttribute, &c.TypeChange, "fallbackInstanceTypes", statementOfTypes),
		c.stoppedChange(limiter.ModifyInstanceCapacityReservationAttributes, &c.Reserve, "capacityReservation",
			statementOfReservations),
		c.describeCluster(), c.nodeRole(), c.keys())
}

// wrong is the line of what the command repairs.
func wrong(name, repair, format string, args ...any) check.Result {
	line := check.Line(check.Wrong, name, format, args...)
	line.Repair = repair
	return line
}

// NoCloud is the line in place of the cloud's checks.
func NoCloud(why string) check.Result { return check.Line(check.NotChecked, nameCloud, "%s", why) }

func cloudIdentity(c *CloudFacts) check.Result {
	if c.Identity.Err != nil {
		return check.Line(check.NotChecked, nameCloudIdentity, "%v", c.Identity.Err)
	}
	return check.Line(check.OK, nameCloudIdentity, "the cloud is asked as %s", c.Identity.Value)
}

// allow is the command that gives the policy of docs/install.md the missing permission.
func (c *CloudFacts) allow() string {
	partition, account := "aws", "ACCOUNT"
	if parts := strings.Split(c.Identity.Value, ":"); len(parts) > 4 {
		partition, account = parts[1], parts[4]
	}
	return fmt.Sprintf("aws iam create-policy-version --set-as-default --policy-arn arn:%s:iam::%s:policy/stratos-%s "+
		"--policy-document file://stratos-policy.json", partition, account, c.Cluster)
}

func (c *CloudFacts) launch(l Launch) check.Result {
	name := fmt.Sprintf("%s %s", limiter.RunInstances, l.Class)
	switch {
	case !l.IsResolved:
		return check.Line(check.NotChecked, name, "the class is not Ready, so there is no launch to try")
	case l.Err == nil:
		return check.Line(check.OK, name, "allowed, by a dry run in each subnet")
	case provider.IsUnauthorized(l.Err):
		return wrong(name, c.allow(), "%v", l.Err)
	case provider.IsInvalidConfig(l.Err):
		return wrong(name, "kubectl edit awsnodeclasses."+v1alpha1.GroupVersion().Group+" "+l.Class, "%v", l.Err)
	}
	return check.Line(check.NotChecked, name, "%v", l.Err)
}

func (c *CloudFacts) operation(op limiter.Operation) check.Result {
	name := string(op)
	err := c.Operations[op]
	switch {
	case c.Instance.Err != nil:
		return check.Line(check.NotChecked, name, "the instances of this cluster cannot be listed: %v", c.Instance.Err)
	case c.Instance.Value == nil:
		return check.Line(check.NotChecked, name, "there is no instance of this cluster yet")
	}
	return c.dryRun(op, c.Instance.Value, err)
}

// dryRun is the line of an operation that was tried on the instance.
func (c *CloudFacts) dryRun(op limiter.Operation, i *provider.Instance, err error) check.Result {
	name := string(op)
	switch {
	case err == nil:
		return check.Line(check.OK, name, "allowed, by a dry run on %s", i.ID)
	case provider.IsUnauthorized(err):
		return wrong(name, c.allow(), "on %s: %v", i.ID, err)
	case provider.IsIncorrectState(err):
		return check.Line(check.OK, name, "allowed, though not in the present state of %s", i.ID)
	}
	return check.Line(check.NotChecked, name, "%v", err)
}

// stoppedChange: the statement may be left out where no class has the field.
func (c *CloudFacts) stoppedChange(op limiter.Operation, t *StoppedChange, field, statement string) check.Result {
	name := string(op)
	switch {
	case !t.Needed:
		return check.Line(check.OK, name, "no class has %s", field)
	case t.Instance == nil && c.Instance.Err != nil:
		return check.Line(check.NotChecked, name, "the instances of this cluster cannot be listed: %v", c.Instance.Err)
	case t.Instance == nil:
		return check.Line(check.NotChecked, name, "no class with %s has a stopped instance yet", field)
	}
	line := c.dryRun(op, t.Instance, t.Err)
	if line.Status == check.Wrong {
		line.Words += "; the statement " + statement + " of the policy allows it"
	}
	return line
}

func (c *CloudFacts) describeCluster() check.Result {
	switch err := c.Mode.Err; {
	case err == nil:
		return check.Line(check.OK, nameDescribeCluster, "EKS describes %s", c.Cluster)
	case c.NeedsEKS && provider.IsUnauthorized(err):
		return wrong(nameDescribeCluster, c.allow(), "%v", err)
	case c.NeedsEKS && provider.IsInvalidConfig(err):
		return wrong(nameDescribeCluster, "aws eks list-clusters", "classes name a cluster that EKS does not have here: %v", err)
	case !c.NeedsEKS:
		return check.Line(check.NotChecked, nameDescribeCluster, "no class needs it: %v", err)
	default:
		return check.Line(check.NotChecked, nameDescribeCluster, "%v", err)
	}
}

// nodeRole: a kubelet enters a cluster of EKS by the role of its instance.
func (c *CloudFacts) nodeRole() check.Result {
	if len(c.Joins) == 0 {
		return check.Line(check.OK, nameNodeRole, "no class joins by a role")
	}
	if c.Mode.Err != nil {
		return check.Line(check.NotChecked, nameNodeRole, "EKS does not say how nodes join: %v", c.Mode.Err)
	}
	var problems, unknown []string
	repair := ""
	for i := range c.Joins {
		problem, why, command := c.join(&c.Joins[i])
		if problem != "" {
			problems = append(problems, "class "+c.Joins[i].Class+": "+problem)
		}
		if why != "" {
			unknown = append(unknown, "class "+c.Joins[i].Class+": "+why)
		}
		repair = cmp.Or(repair, command)
	}
	switch {
	case len(problems) > 0:
		return wrong(nameNodeRole, repair, "%s", check.Several(problems))
	case len(unknown) > 0:
		return check.Line(check.NotChecked, nameNodeRole, "%s", check.Several(unknown))
	}
	return check.Line(check.OK, nameNodeRole, "may join %s", c.Cluster)
}

// join returns what keeps instances of the class from joining and the command that repairs it, or
// why it is not known; all empty where they may join.
func (c *CloudFacts) join(j *Join) (problem, unknown, repair string) {
	role := j.Role.Value
	fromMap := c.Mode.Value == modeConfigMap || c.Mode.Value == modeBoth
	switch {
	case provider.IsInvalidConfig(j.Role.Err):
		return j.Role.Err.Error(), "", "aws iam list-instance-profiles"
	case j.Role.Err != nil:
		return "", "its role is not known: " + j.Role.Err.Error(), ""
	case role == "":
		return "it has no iamInstanceProfile, so EKS lets no kubelet in", "",
			"kubectl edit awsnodeclasses." + v1alpha1.GroupVersion().Group + " " + j.Class
	case j.Entry.Value == entryType:
		return "", "", ""
	case j.Entry.Value != "":
		return fmt.Sprintf("the access entry of %s is of type %s, not %s", role, j.Entry.Value, entryType), "",
			fmt.Sprintf("aws eks delete-access-entry --cluster-name %s --principal-arn %s && %s", c.Cluster, role, c.enter(role))
	case fromMap && slices.Contains(c.AWSAuth.Value, withoutPath(role)):
		return "", "", ""
	case j.Entry.Err != nil:
		return "", "its access entry cannot be read: " + j.Entry.Err.Error(), ""
	case fromMap && c.AWSAuth.Err != nil:
		return "", "the ConfigMap aws-auth cannot be read: " + c.AWSAuth.Err.Error(), ""
	}
	return role + " may not join " + c.Cluster, "", c.enter(role)
}

// enter is the command by which the role may join.
func (c *CloudFacts) enter(role string) string {
	if c.Mode.Value == modeConfigMap {
		return fmt.Sprintf("eksctl create iamidentitymapping --cluster %s --arn %s --group system:bootstrappers --group %s "+
			"--username system:node:{{EC2PrivateDNSName}}", c.Cluster, role, nodesGroup)
	}
	return fmt.Sprintf("aws eks create-access-entry --cluster-name %s --principal-arn %s --type %s", c.Cluster, role, entryType)
}

// keys: a grant on a key is made at the launch, and no dry run tries it.
func (c *CloudFacts) keys() check.Result {
	if len(c.Keys) == 0 {
		return check.Line(check.OK, nameKeys, "no class names a key")
	}
	return check.Line(check.NotChecked, nameKeys, "no dry run shows whether Stratos may use the keys of: %s", strings.Join(c.Keys, ", "))
}
