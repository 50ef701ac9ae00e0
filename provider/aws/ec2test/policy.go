package ec2test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// Policy is an IAM policy of the caller, as far as the server plays one: statements that allow,
// with the conditions StringEquals and Null on tags of the request and of instances, and on the
// attribute that the request changes.
type Policy struct {
	Statement []Statement
	// NoAttributeKey: no request has the key ec2:Attribute. AWS documents it for
	// ModifyInstanceAttribute. For ModifySnapshotAttribute it is documented too, and users found it
	// missing.
	NoAttributeKey bool `json:"-"`
}

// Statement allows actions on resources under conditions.
type Statement struct {
	Action, Resource texts
	Condition        map[string]map[string]string
}

// texts is a text or a list of them.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// ParsePolicy reads a policy, with its placeholders, such as REGION, replaced.
func ParsePolicy(text []byte, replace *strings.Replacer) (*Policy, error) {
	p := &Policy{}
	if err := json.Unmarshal([]byte(replace.Replace(string(text))), p); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return p, nil
}

// SetPolicy bounds what the caller may do to instances that exist and with which tags it may launch
// some; nil: everything is allowed.
func (s *Server) SetPolicy(p *Policy) {
	s.sim.Write(func(*simcloud.Book) { s.policy = p })
}

// authorize refuses a call as a whole for one instance on which it is not allowed, as EC2 does.
func (s *Server) authorize(b *simcloud.Book, c call) error {
	if s.policy == nil {
		return nil
	}
	for _, id := range c.ids {
		if c.action == DescribeInstances {
			break // it knows no resources
		}
		if inst, err := b.Find(id); err == nil && !s.policy.allows(c, s.arn(c.region, id), inst.Tags) {
			return s.unauthorized(c, id)
		}
	}
	for _, arn := range c.also {
		if !s.policy.allows(c, arn, nil) {
			return s.denied(c, arn)
		}
	}
	if c.action == RunInstances && !s.policy.allows(c, s.arn(c.region, "*"), nil) {
		return s.unauthorized(c, "*")
	}
	return nil
}

func (s *Server) arn(region string, id v1alpha1.InstanceID) string {
	return fmt.Sprintf("arn:aws:ec2:%s:%s:instance/%s", region, s.account.ID, id)
}

func (s *Server) unauthorized(c call, id v1alpha1.InstanceID) error {
	return s.denied(c, s.arn(c.region, id))
}

func (s *Server) denied(c call, resource string) error {
	return &Error{Code: codeUnauthorized, Status: http.StatusForbidden, Message: fmt.Sprintf(
		"You are not authorized to perform this operation. User: arn:aws:sts::%s:assumed-role/stratos is not authorized to "+
			"perform: ec2:%s on resource: %s because no identity-based policy allows the ec2:%[2]s action",
		s.account.ID, c.action, resource)}
}

func (p *Policy) allows(c call, resource string, has map[string]string) bool {
	keys := map[string]string{}
	for name, value := range c.tags {
		keys["aws:RequestTag/"+name] = value
	}
	for name, value := range has {
		keys["aws:ResourceTag/"+name] = value
	}
	if c.attribute != "" && !p.NoAttributeKey {
		keys["ec2:Attribute"] = c.attribute
	}
	return slices.ContainsFunc(p.Statement, func(s Statement) bool {
		return slices.Contains(s.Action, "ec2:"+string(c.action)) && s.covers(resource) && s.holds(keys)
	})
}

func (s Statement) covers(resource string) bool {
	return slices.ContainsFunc(s.Resource, func(pattern string) bool {
		ok, err := path.Match(pattern, resource)
		return pattern == "*" || err == nil && ok
	})
}

// holds reports whether every condition does for a request with the keys.
func (s Statement) holds(keys map[string]string) bool {
	for operator, conditions := range s.Condition {
		for key, want := range conditions {
			value, there := keys[key]
			switch {
			case operator == "StringEquals" && there && value == want:
			case operator == "Null" && want == fmt.Sprint(!there):
			default:
				return false
			}
		}
	}
	return true
}
