package ec2test

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

// iamSignature is the form of a request signed by Signature Version 4 for IAM or STS.
var iamSignature = regexp.MustCompile(
	`^AWS4-HMAC-SHA256 Credential=[^/,\s]+/\d{8}/([a-z0-9-]+)/(?:iam|sts)/aws4_request, ?SignedHeaders=[a-z0-9;-]+, ?Signature=[0-9a-f]{64}$`,
)

const (
	stsVersion   = "2011-06-15"
	stsNamespace = "https://sts.amazonaws.com/doc/2011-06-15/"
	iamVersion   = "2010-05-08"
	iamNamespace = "https://iam.amazonaws.com/doc/2010-05-08/"
	// callerName ends the ARN of the caller.
	callerName = "assumed-role/stratos/session"
)

// isIAM reports whether the request is one of IAM or STS, which have EC2's path.
func isIAM(r *http.Request) bool { return iamSignature.MatchString(r.Header.Get("Authorization")) }

type callerIdentity struct {
	XMLName   xml.Name `xml:"GetCallerIdentityResponse"`
	Namespace string   `xml:"xmlns,attr"`
	Arn       string   `xml:"GetCallerIdentityResult>Arn"`
	UserID    string   `xml:"GetCallerIdentityResult>UserId"`
	Account   string   `xml:"GetCallerIdentityResult>Account"`
	RequestID string   `xml:"ResponseMetadata>RequestId"`
}

type instanceProfile struct {
	XMLName   xml.Name `xml:"GetInstanceProfileResponse"`
	Namespace string   `xml:"xmlns,attr"`
	Name      string   `xml:"GetInstanceProfileResult>InstanceProfile>InstanceProfileName"`
	Role      string   `xml:"GetInstanceProfileResult>InstanceProfile>Roles>member>Arn"`
	RequestID string   `xml:"ResponseMetadata>RequestId"`
}

// understandIAM reads a request of IAM or STS.
func (s *Server) understandIAM(w http.ResponseWriter, r *http.Request) (call, url.Values, error) {
	c := call{op: simcloud.OpResolve, region: iamSignature.FindStringSubmatch(r.Header.Get("Authorization"))[1]}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return c, nil, fail("MalformedInput", "The request cannot be read: %v", err)
	}
	p, err := newParams(r.PostForm)
	if err != nil {
		return c, r.PostForm, err
	}
	c.action = Action(p.text("Action"))
	switch version := p.text("Version"); {
	case c.action == GetCallerIdentity && version == stsVersion:
		c.run = func(*simcloud.Book) (answer, error) {
			return answer{content: callerIdentity{Namespace: stsNamespace, UserID: "AROATEST:session", Account: s.account.ID,
				Arn: fmt.Sprintf("arn:aws:sts::%s:%s", s.account.ID, callerName), RequestID: "0"}}, nil
		}
	case c.action == GetInstanceProfile && version == iamVersion:
		name := p.text("InstanceProfileName")
		c.run = func(*simcloud.Book) (answer, error) {
			role, ok := s.account.Profiles[name]
			if !ok {
				return answer{}, &Error{Code: "NoSuchEntity", Status: http.StatusNotFound,
					Message: fmt.Sprintf("Instance Profile %s cannot be found.", name)}
			}
			return answer{content: instanceProfile{Namespace: iamNamespace, Name: name, Role: role, RequestID: "0"}}, nil
		}
	default:
		return c, r.PostForm, fail("InvalidAction", "Could not find operation %s for version %s", c.action, version)
	}
	return c, r.PostForm, p.end()
}

type iamFailure struct {
	XMLName   xml.Name `xml:"ErrorResponse"`
	Type      string   `xml:"Error>Type"`
	Code      string   `xml:"Error>Code"`
	Message   string   `xml:"Error>Message"`
	RequestID string   `xml:"RequestId"`
}

// refuseIAM answers an error as IAM and STS do.
func (s *Server) refuseIAM(w http.ResponseWriter, e *Error) {
	status := e.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	s.send(w, status, iamFailure{Type: "Sender", Code: e.Code, Message: e.Message, RequestID: s.requestID()})
}
