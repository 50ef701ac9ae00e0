package aws

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

const (
	image137 = "ami-0123456789abcdef0"
	image138 = "ami-0123456789abcdea7"
)

// upgrading is an account with images for two minors.
func upgrading(o *ec2test.Options) {
	o.Account = ec2test.DefaultAccount()
	next := o.Account.Images[0]
	next.ID, next.Name = image138, "amazon-eks-node-al2023-x86_64-standard-1.38-v20261115"
	o.Account.Images = append(o.Account.Images, next)
}

// TestAnAliasFollowsANewMinorSlowly: while a control plane is upgraded its servers answer with the
// old and the new version in turn, and each change would replace every node.
func TestAnAliasFollowsANewMinorSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{}, upgrading)
		minor := "1.37"
		answer := func(context.Context) (string, error) { return minor, nil }
		c := r.cloud(t, func(o *Options) { o.Minor = answer })
		aliased := class()
		byAMI(v1alpha1.SelectorTerm{Alias: "al2023@latest"})(&aliased.Spec)
		aliased.Status = v1alpha1.AWSNodeClassStatus{}
		resolve := func(c *Cloud) string {
			t.Helper()
			status, err := c.ResolveNodeClass(t.Context(), aliased)
			if err != nil {
				t.Fatal(err)
			}
			aliased.Status = status
			return status.AMI
		}
		is := func(when, got, want string) {
			t.Helper()
			if got != want {
				t.Fatalf("%s: image %s, want %s", when, got, want)
			}
		}
		is("at first", resolve(c), image137)
		for n := range 20 {
			pass(5 * time.Minute)
			minor = []string{"1.38", "1.37"}[n%2]
			is("while the answers alternate", resolve(c), image137)
		}
		minor = "1.38"
		for range 6 {
			pass(5 * time.Minute)
			is("answered for less than 30 minutes", resolve(c), image137)
		}
		again := r.cloud(t, func(o *Options) { o.Minor = answer })
		is("a new process, whose class has the old image", resolve(again), image137)
		for range 6 {
			pass(4 * time.Minute)
			is("the new process, 24 minutes later", resolve(again), image137)
		}
		pass(6 * time.Minute)
		is("answered for 30 minutes", resolve(again), image138)
		minor = "1.37"
		is("one old answer later", resolve(again), image138)
	})
}

// TestAMinorThatIsNotAnswered keeps the class from resolving, and counts for nothing.
func TestAMinorThatIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{}, upgrading)
		down := errors.New("connection refused")
		c := r.cloud(t, func(o *Options) { o.Minor = func(context.Context) (string, error) { return "", down } })
		aliased := class()
		byAMI(v1alpha1.SelectorTerm{Alias: "al2023@latest"})(&aliased.Spec)
		if _, err := c.ResolveNodeClass(t.Context(), aliased); !errors.Is(err, down) {
			t.Errorf("%v, want the API server's error", err)
		}
	})
}
