package helm

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/interp"
)

// usage is how a program that cannot run here is called.
type usage struct {
	// needs are flags that have to be there, may those that can; both take a value. bare ones take
	// none.
	needs, may, bare []string
	// answers are what it prints, by the value of --query.
	answers map[string]string
	// prints is what it prints without one.
	prints string
}

// usages are the foreign commands that the pages may use, by their words.
func usages() map[string]usage {
	account := map[string]string{"Account": "123456789012"}
	association := []string{"--cluster", "--namespace", "--service-account-name"}
	return map[string]usage{
		"aws sts get-caller-identity": {answers: account},
		"aws ssm get-parameter": {needs: []string{"--name"},
			answers: map[string]string{"Parameter.Value": "ami-0123456789abcdef0"}},
		"aws ec2 describe-instances": {needs: []string{"--filters"},
			answers: map[string]string{"Reservations[].Instances[].InstanceId": ""}},
		"aws eks update-kubeconfig":   {needs: []string{"--name"}},
		"aws eks create-addon":        {needs: []string{"--cluster-name", "--addon-name"}},
		"aws eks create-access-entry": {needs: []string{"--cluster-name", "--principal-arn", "--type"}},
		"aws eks delete-access-entry": {needs: []string{"--cluster-name", "--principal-arn"}},
		"aws eks describe-cluster": {needs: []string{"--name"}, answers: map[string]string{
			"cluster.endpoint":                                  "https://0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com",
			"cluster.certificateAuthority.data":                 "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
			"cluster.kubernetesNetworkConfig.serviceIpv4Cidr":   "10.100.0.0/16",
			"join(',', cluster.resourcesVpcConfig.subnetIds)":   "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
			"cluster.resourcesVpcConfig.clusterSecurityGroupId": "sg-0123456789abcdef0",
		}},
		"aws iam create-policy":                     {needs: []string{"--policy-name", "--policy-document"}},
		"aws iam delete-policy":                     {needs: []string{"--policy-arn"}},
		"aws iam create-role":                       {needs: []string{"--role-name", "--assume-role-policy-document"}},
		"aws iam delete-role":                       {needs: []string{"--role-name"}},
		"aws iam attach-role-policy":                {needs: []string{"--role-name", "--policy-arn"}},
		"aws iam detach-role-policy":                {needs: []string{"--role-name", "--policy-arn"}},
		"aws iam create-instance-profile":           {needs: []string{"--instance-profile-name"}},
		"aws iam delete-instance-profile":           {needs: []string{"--instance-profile-name"}},
		"aws iam add-role-to-instance-profile":      {needs: []string{"--instance-profile-name", "--role-name"}},
		"aws iam remove-role-from-instance-profile": {needs: []string{"--instance-profile-name", "--role-name"}},

		"eksctl create cluster":                    {needs: []string{"-f"}},
		"eksctl delete cluster":                    {needs: []string{"--name"}, bare: []string{"--wait"}},
		"eksctl create podidentityassociation":     {needs: append(association, "--role-name", "--permission-policy-arns")},
		"eksctl delete podidentityassociation":     {needs: association},
		"eksctl utils associate-iam-oidc-provider": {needs: []string{"--cluster"}, bare: []string{"--approve"}},
		"eksctl create iamserviceaccount": {needs: []string{"--cluster", "--namespace", "--name", "--role-name",
			"--attach-policy-arn"},
			bare: []string{"--role-only", "--approve"}},

		"kubeadm init": {needs: []string{"--config"}},
		"kubeadm token create": {may: []string{"--ttl", "--description"}, bare: []string{"--print-join-command"},
			prints: "kubeadm join 10.0.0.10:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:" +
				strings.Repeat("0a", 32)},
		"kind create cluster": {needs: []string{"--config"}, may: []string{"--name"}},
	}
}

// foreign checks a command by its words, flags and values, and answers as the program would.
func (r *reader) foreign(shell interp.HandlerContext, args []string) error {
	words := 0
	for words < len(args) && !strings.HasPrefix(args[words], "-") {
		words++
	}
	known, ok := usages()[strings.Join(args[:words], " ")]
	if !ok {
		return errors.New("the test does not know this command")
	}
	if args[0] == "aws" {
		known.may = append(known.may, "--query", "--output")
	}
	flags, err := known.parse(args[words:])
	if err != nil {
		return err
	}
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		if err := r.value(shell, flag, flags[flag]); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	answer, err := known.answer(flags)
	if err != nil {
		return err
	}
	_, err = io.WriteString(shell.Stdout, answer+"\n")
	return err
}

// parse reads flags, of which those with a value may have several.
func (u usage) parse(args []string) (map[string][]string, error) {
	flags, last := map[string][]string{}, ""
	for _, arg := range args {
		switch {
		case !strings.HasPrefix(arg, "-"):
			if last == "" {
				return nil, fmt.Errorf("%q belongs to no flag", arg)
			}
			flags[last] = append(flags[last], arg)
		case flags[arg] != nil:
			return nil, fmt.Errorf("%s is there twice", arg)
		case slices.Contains(u.bare, arg):
			flags[arg], last = []string{}, ""
		case slices.Contains(u.needs, arg), slices.Contains(u.may, arg):
			flags[arg], last = []string{}, arg
		default:
			return nil, fmt.Errorf("unknown flag %s", arg)
		}
	}
	for _, flag := range u.needs {
		if flags[flag] == nil {
			return nil, fmt.Errorf("%s is missing", flag)
		}
	}
	for flag, values := range flags {
		if (len(values) == 0) != slices.Contains(u.bare, flag) || len(values) > 1 && flag != "--filters" {
			return nil, fmt.Errorf("%s has the values %q", flag, values)
		}
	}
	return flags, nil
}

func (u usage) answer(flags map[string][]string) (string, error) {
	query := flags["--query"]
	if query == nil {
		return u.prints, nil
	}
	answer, ok := u.answers[query[0]]
	if !ok {
		return "", fmt.Errorf("--query: the test does not know %q", query[0])
	}
	return answer, nil
}

// What flags of the cloud's programs look like.
var (
	arn     = regexp.MustCompile(`^arn:aws:iam::(aws|\d{12}):(role|policy)/[\w+=,.@-]{1,128}$`)
	aName   = regexp.MustCompile(`^[\w+=,.@-]{1,64}$`)
	aFilter = regexp.MustCompile(`^Name=[a-z][\w:./-]*,Values=[\w,./-]+$`)
	anImage = regexp.MustCompile(
		`^/aws/service/eks/optimized-ami/1\.3[456]/amazon-linux-2023/x86_64/standard/recommended/image_id$`,
	)
)

func (r *reader) value(shell interp.HandlerContext, flag string, values []string) error {
	for _, value := range values {
		wanted := aName
		switch flag {
		case "--policy-document", "--assume-role-policy-document":
			return r.policyArgument(shell, value)
		case "-f", "--config":
			if r.checked[filepath.Join(shell.Dir, value)] != "" {
				return nil
			}
			return r.file(shell, value)
		case "--query", "--description":
			continue
		case "--policy-arn", "--principal-arn", "--permission-policy-arns", "--attach-policy-arn":
			wanted = arn
		case "--filters":
			wanted = aFilter
		}
		if strings.HasPrefix(value, "/aws/") {
			wanted = anImage
		}
		if !wanted.MatchString(value) {
			return fmt.Errorf("%q does not match %s", value, wanted)
		}
	}
	return nil
}

// file wants a file to be there; what is in it is checked when its block ends.
func (r *reader) file(shell interp.HandlerContext, name string) error {
	_, err := os.Stat(filepath.Join(shell.Dir, name))
	return err
}

func (r *reader) policyArgument(shell interp.HandlerContext, value string) error {
	if name, isFile := strings.CutPrefix(value, "file://"); isFile {
		data, err := os.ReadFile(filepath.Join(shell.Dir, name))
		if err != nil {
			return err
		}
		value = string(data)
	}
	return checkPolicy(value)
}
