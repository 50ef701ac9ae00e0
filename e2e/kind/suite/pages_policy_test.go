package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"
)

// iamPolicy is an IAM policy document, as far as the pages need it.
type iamPolicy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid, Effect      string
	Action, Resource oneOrMore
	Principal        map[string]string
	Condition        map[string]map[string]oneOrMore
}

// oneOrMore is a text or a list of texts, as IAM has it.
type oneOrMore []string

// UnmarshalJSON takes both forms.
func (o *oneOrMore) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		return json.Unmarshal(data, (*[]string)(o))
	}
	*o = make(oneOrMore, 1)
	return json.Unmarshal(data, &(*o)[0])
}

// operations are what the provider calls on EC2 and EKS, each with the condition that has to keep
// it to this cluster's instances.
func operations() map[string]string {
	return map[string]string{
		"ec2:DescribeInstances": "", "ec2:DescribeInstanceTypes": "", "ec2:DescribeImages": "", "ec2:DescribeSubnets": "",
		"ec2:DescribeSecurityGroups": "",
		"ec2:RunInstances":           "aws:RequestTag/stratos.sh/cluster",
		"ec2:StartInstances":         "aws:ResourceTag/stratos.sh/cluster",
		"ec2:StopInstances":          "aws:ResourceTag/stratos.sh/cluster",
		"ec2:TerminateInstances":     "aws:ResourceTag/stratos.sh/cluster",
		"ec2:CreateTags":             "aws:ResourceTag/stratos.sh/cluster",

		"ec2:ModifyInstanceAttribute": "aws:ResourceTag/stratos.sh/cluster",

		"ec2:DescribeCapacityReservations":                "",
		"ec2:ModifyInstanceCapacityReservationAttributes": "aws:ResourceTag/stratos.sh/cluster",
		"eks:DescribeCluster":                             "",
		"iam:PassRole":                                    "iam:PassedToService",
	}
}

var (
	resource = regexp.MustCompile(`^(\*|arn:aws:(ec2|eks|ssm|iam|resource-groups):([a-z]+-[a-z]+-\d)?:(\d{12}|\*)?:` +
		`[a-z*-]+/[\w./*-]+)$`)
	onMachine = regexp.MustCompile(`:instance/\*$`)
)

// checkPolicy checks the policy of a role, which has principals, or that of Stratos, which allows
// all that Stratos calls and nothing on other clusters.
func checkPolicy(text string) error {
	var p iamPolicy
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if p.Version != "2012-10-17" || len(p.Statement) == 0 {
		return fmt.Errorf("policy: version %q with %d statements", p.Version, len(p.Statement))
	}
	if s := p.Statement[0]; s.Principal != nil {
		if s.Effect != "Allow" || s.Action[0] != "sts:AssumeRole" || s.Principal["Service"] != "ec2.amazonaws.com" {
			return fmt.Errorf("policy: %v trusts no instance", s)
		}
		return nil
	}
	allowed := map[string]bool{}
	var errs []error
	for _, s := range p.Statement {
		errs = append(errs, s.check())
		for _, action := range s.Action {
			allowed[action] = true
		}
	}
	for action := range operations() {
		if !allowed[action] {
			errs = append(errs, fmt.Errorf("policy: nothing allows %s", action))
		}
	}
	return errors.Join(errs...)
}

func (s statement) check() error {
	if s.Effect != "Allow" || s.Sid == "" || len(s.Action) == 0 || len(s.Resource) == 0 {
		return fmt.Errorf("policy: statement %+v is incomplete", s)
	}
	for _, r := range s.Resource {
		if !resource.MatchString(r) {
			return fmt.Errorf("policy: %s: resource %q", s.Sid, r)
		}
	}
	for _, action := range s.Action {
		condition, known := operations()[action]
		if !known {
			return fmt.Errorf("policy: %s: Stratos never calls %q", s.Sid, action)
		}
		if condition != "" && s.reachesMachines(action) && len(s.Condition["StringEquals"][condition]) == 0 {
			return fmt.Errorf("policy: %s: %s without a condition on %s", s.Sid, action, condition)
		}
		if attribute := s.Condition["StringEquals"]["ec2:Attribute"]; action == "ec2:ModifyInstanceAttribute" &&
			!slices.Equal(attribute, []string{"InstanceType"}) {
			return fmt.Errorf("policy: %s: %s of attributes %q", s.Sid, action, attribute)
		}
	}
	return nil
}

// reachesMachines: images, subnets and groups are read by a launch; a role is passed to any
// instance.
func (s statement) reachesMachines(action string) bool {
	return action == "iam:PassRole" || slices.ContainsFunc(s.Resource,
		func(r string) bool { return r == "*" || onMachine.MatchString(r) })
}
