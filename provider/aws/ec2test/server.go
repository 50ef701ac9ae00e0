package ec2test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

const (
	// ProviderPrefix begins the provider ids of EC2's Nodes; the played cloud is to be made with it.
	ProviderPrefix = "aws://"
	// apiVersion is the one version of the API that EC2 has.
	apiVersion = "2016-11-15"
	namespace  = "http://ec2.amazonaws.com/doc/" + apiVersion + "/"
	// maxBody bounds a request: 1000 ids and 16 KiB of user data are far below.
	maxBody = 1 << 20
	// maxRequests bounds the log of requests.
	maxRequests = 20_000
)

// signature is the form of a request signed by Signature Version 4 for EC2.
var signature = regexp.MustCompile(
	`^AWS4-HMAC-SHA256 Credential=[^/,\s]+/\d{8}/([a-z0-9-]+)/ec2/aws4_request, ?SignedHeaders=[a-z0-9;-]+, ?Signature=[0-9a-f]{64}$`,
)

// Options configure a Server. The zero value is the default account with the published limits.
type Options struct {
	// Account is what there is apart from instances; nil: DefaultAccount.
	Account *Account
	// Limits of each region; nil: Published. Empty ones are none.
	Limits *Limits
	// Types are the properties of types by their names, in place of those that PropertiesOf gives
	// them. The types themselves are the played cloud's.
	Types map[string]Properties
}

// Server answers EC2's protocol, and some calls of EKS, IAM and STS, for a played cloud. It is an
// http.Handler, safe for concurrent use.
type Server struct {
	sim     *simcloud.Cloud
	account *Account
	options Options

	// What follows is touched inside the cloud's Write alone, whose lock guards it.
	buckets  map[string]*buckets
	launches map[string]launch
	details  map[v1alpha1.InstanceID]details
	guarded  map[v1alpha1.InstanceID]Protection
	capacity map[string]CapacityReservation
	requests []Request
	scripted []scripted
	policy   *Policy
	sequence int
}

// New returns a Server before the cloud, whose provider ids begin with ProviderPrefix.
func New(sim *simcloud.Cloud, o Options) *Server {
	s := &Server{
		sim: sim, account: o.Account, options: o,
		buckets: map[string]*buckets{}, launches: map[string]launch{}, details: map[v1alpha1.InstanceID]details{},
		guarded: map[v1alpha1.InstanceID]Protection{}, capacity: map[string]CapacityReservation{},
	}
	if s.account == nil {
		s.account = DefaultAccount()
	}
	if s.options.Limits == nil {
		s.options.Limits = Published()
	}
	return s
}

// call is a request that was understood.
type call struct {
	action Action
	region string
	op     simcloud.Op
	// ids are the instances that it names. resources is what it costs of the resource bucket.
	ids       []v1alpha1.InstanceID
	resources int
	force     bool
	// tags are those that it writes on instances.
	tags map[string]string
	// attribute is the one of an instance that it changes, as policies name it.
	attribute string
	// also are the ARNs of what it names in addition to instances, for policies.
	also []string
	// dry: whether it would be allowed is answered in place of the effect.
	dry bool
	// unpaged: it describes everything at once.
	unpaged bool
	// run has the effect and returns the answer. It is called with the cloud's book open.
	run func(*simcloud.Book) (answer, error)
	// refused is called for a refusal for another reason than the rate. May be nil.
	refused func()
}

// answer is what goes back: the content of the response's element, and the instances that it
// launched.
type answer struct {
	content  any
	launched []v1alpha1.InstanceID
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	seen, eks := Request{At: time.Now()}, isEKS(r)
	refuse := s.refuse
	switch {
	case eks:
		refuse = s.refuseEKS
	case isIAM(r):
		refuse = s.refuseIAM
	}
	c, form, err := s.read(w, r)
	seen.Action, seen.Region = c.action, c.region
	seen.Params = flat(form)
	seen.Attempt = r.Header.Get("Amz-Sdk-Invocation-Id") + " " + r.Header.Get("Amz-Sdk-Request")
	if err != nil {
		s.sim.Write(func(*simcloud.Book) { s.log(seen, err) })
		refuse(w, answerTo(err))
		return
	}
	target := simcloud.Target{Op: c.op}
	if len(c.ids) > 0 {
		target.ID = c.ids[0]
	}
	if !s.reachable(r.Context(), c) || s.sim.Latency(r.Context(), target) != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
	var content any
	s.sim.Write(func(b *simcloud.Book) {
		var a answer
		a, err = s.perform(b, c)
		content = a.content
		for _, id := range slices.Concat(c.ids, a.launched) {
			b.Record(simcloud.Call{At: seen.At, Op: c.op, Instance: id, Force: c.force}, err)
		}
		if len(c.ids)+len(a.launched) == 0 {
			b.Record(simcloud.Call{At: seen.At, Op: c.op}, err)
		}
		seen.Instances = slices.Concat(c.ids, a.launched)
		s.log(seen, err)
	})
	var lost *simcloud.LostAnswerError
	switch {
	case errors.As(err, &lost):
		panic(http.ErrAbortHandler) // it happened, and no answer says so
	case err != nil:
		refuse(w, answerTo(err))
	case eks:
		s.sendJSON(w, http.StatusOK, content)
	case isIAM(r):
		s.send(w, http.StatusOK, content)
	default:
		s.write(w, c.action, content)
	}
}

// read reads a request of either service.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (call, url.Values, error) {
	switch {
	case isEKS(r):
		return s.understandEKS(r)
	case isIAM(r):
		return s.understandIAM(w, r)
	}
	return s.understand(w, r)
}

// understand reads the request as far as its own words go. Errors leave out what was not
// understood.
func (s *Server) understand(w http.ResponseWriter, r *http.Request) (call, url.Values, error) {
	var c call
	if r.Method != http.MethodPost || r.URL.Path != "/" {
		return c, nil, fail("InvalidAction", "The action is not valid for this web service: %s %s", r.Method, r.URL.Path)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return c, nil, fail("MalformedQueryString", "The request cannot be read: %v", err)
	}
	p, err := newParams(r.PostForm)
	if err != nil {
		return c, r.PostForm, err
	}
	c.action = Action(p.text("Action"))
	if version := p.text("Version"); version != apiVersion {
		return c, r.PostForm, fail("NoSuchVersion", "The requested version (%s) of service AmazonEC2 does not exist", version)
	}
	signed := signature.FindStringSubmatch(r.Header.Get("Authorization"))
	if signed == nil || r.Header.Get("X-Amz-Date") == "" {
		return c, r.PostForm, &Error{Code: "AuthFailure", Status: http.StatusUnauthorized,
			Message: "AWS was not able to validate the provided access credentials"}
	}
	c.region = signed[1]
	parse := s.parser(c.action)
	if parse == nil {
		return c, r.PostForm, fail("InvalidAction", "The action %s is not valid for this web service.", c.action)
	}
	c.dry = p.flag("DryRun")
	parse(p, &c)
	if err := p.end(); err != nil {
		return c, r.PostForm, err
	}
	return c, r.PostForm, nil
}

// parser reads the parameters of an action into the call; nil for an action that is not known. What
// is wrong with them is told to the params.
func (s *Server) parser(action Action) func(*params, *call) {
	switch action {
	case RunInstances:
		return s.parseRun
	case StartInstances:
		return s.parseStart
	case StopInstances:
		return s.parseStop
	case TerminateInstances:
		return s.parseTerminate
	case DescribeInstances:
		return s.parseDescribe
	case CreateTags:
		return s.parseTags
	case ModifyInstanceAttribute:
		return s.parseModify
	case ModifyInstanceCapacityReservationAttributes:
		return s.parseReserve
	case DescribeCapacityReservations:
		return s.parseReservations
	case DescribeInstanceTypes:
		return s.parseTypes
	case DescribeImages:
		return s.parseImages
	case DescribeSubnets:
		return s.parseSubnets
	case DescribeSecurityGroups:
		return s.parseGroups
	case DescribeCluster, DescribeAccessEntry, GetCallerIdentity, GetInstanceProfile: // other services'
	}
	return nil
}

// perform lets what comes before the effect have its say: limits, scripted failures, the cloud's
// faults for each instance that is named.
func (s *Server) perform(b *simcloud.Book, c call) (answer, error) {
	targets := []simcloud.Target{{Op: c.op}}
	if len(c.ids) > 0 {
		targets = nil
	}
	for _, id := range c.ids {
		targets = append(targets, simcloud.Target{Op: c.op, ID: id})
	}
	if err := b.Down(targets[0]); err != nil {
		return answer{}, err
	}
	limits := s.buckets[c.region]
	if limits == nil {
		limits = newBuckets(s.options.Limits, time.Now())
		s.buckets[c.region] = limits
	}
	if !limits.take(c, time.Now()) {
		return answer{}, throttled()
	}
	if err := s.authorize(b, c); err != nil {
		return answer{}, err
	}
	before, after := s.strike(c)
	a, err := s.run(b, c, targets, before)
	if err != nil {
		if c.refused != nil && answerTo(err).Code != codeThrottled {
			c.refused()
		}
		return a, err
	}
	for _, t := range targets {
		if lost := b.LosesAnswer(t); lost != nil {
			return a, lost
		}
	}
	return a, after
}

// run has the effect unless a scripted failure or a fault of one of the instances comes before it.
func (s *Server) run(b *simcloud.Book, c call, targets []simcloud.Target, scripted error) (answer, error) {
	if scripted != nil {
		return answer{}, scripted
	}
	for _, t := range targets {
		if err := b.Refused(t); err != nil {
			return answer{}, err
		}
	}
	if c.dry {
		if _, err := exists(b, c.region, c.ids); err != nil {
			return answer{}, err
		}
		return answer{}, &Error{Code: codeDryRun, Status: http.StatusPreconditionFailed,
			Message: "Request would have succeeded, but DryRun flag is set."}
	}
	return c.run(b)
}

// element is a response: its name and namespace, the request's id, and the content.
type element struct {
	XMLName   xml.Name
	RequestID string `xml:"requestId"`
	Content   []byte `xml:",innerxml"`
}

func (s *Server) write(w http.ResponseWriter, action Action, content any) {
	var body bytes.Buffer
	wrapping := xml.StartElement{Name: xml.Name{Local: "content"}}
	if err := xml.NewEncoder(&body).EncodeElement(content, wrapping); err != nil {
		panic(fmt.Sprintf("ec2test: %v", err)) // our own structs of text and numbers
	}
	inner := bytes.TrimSuffix(bytes.TrimPrefix(body.Bytes(), []byte("<content>")), []byte("</content>"))
	s.send(w, http.StatusOK, element{
		XMLName: xml.Name{Space: namespace, Local: string(action) + "Response"}, RequestID: s.requestID(), Content: inner,
	})
}

type failure struct {
	XMLName   xml.Name `xml:"Response"`
	Code      string   `xml:"Errors>Error>Code"`
	Message   string   `xml:"Errors>Error>Message"`
	RequestID string   `xml:"RequestID"`
}

func (s *Server) refuse(w http.ResponseWriter, e *Error) {
	status := e.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	s.send(w, status, failure{Code: e.Code, Message: e.Message, RequestID: s.requestID()})
}

func (s *Server) send(w http.ResponseWriter, status int, content any) {
	var body bytes.Buffer
	body.WriteString(xml.Header)
	if err := xml.NewEncoder(&body).Encode(content); err != nil {
		panic(fmt.Sprintf("ec2test: %v", err)) // our own structs of text and numbers
	}
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // an error means that the client has gone
}

func (s *Server) requestID() string {
	n := 0
	s.sim.Write(func(*simcloud.Book) {
		s.sequence++
		n = s.sequence
	})
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
}

// exists is the error of ids that name no instance of the region, in EC2's order: ids that cannot
// be ids come first.
func exists(b *simcloud.Book, region string, ids []v1alpha1.InstanceID) ([]*simcloud.Instance, error) {
	var found []*simcloud.Instance
	var unknown []v1alpha1.InstanceID
	for _, id := range ids {
		inst, err := b.Find(id)
		if provider.IsNotFound(err) || inst.Region != region {
			unknown = append(unknown, id)
			continue
		}
		found = append(found, inst)
	}
	return found, unknownIDs(unknown)
}

func unknownIDs(ids []v1alpha1.InstanceID) error {
	switch len(ids) {
	case 0:
		return nil
	case 1:
		return fail(codeNotFound, "The instance ID '%s' does not exist", ids[0])
	}
	list := ""
	for i, id := range ids {
		if i > 0 {
			list += ", "
		}
		list += string(id)
	}
	return fail(codeNotFound, "The instance IDs '%s' do not exist", list)
}
