package ec2test

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"slices"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

// has reports whether the region exists, which is where the account has subnets. Any other is a
// mistyped one, whose endpoint has no name in the DNS.
func (a *Account) has(region string) bool {
	return slices.ContainsFunc(a.Subnets, func(s Subnet) bool { return s.region() == region })
}

// signedFor is the region that a request is signed for, "" for one that is not signed.
func signedFor(r *http.Request) string {
	for _, service := range []*regexp.Regexp{signature, eksSignature, iamSignature} {
		if signed := service.FindStringSubmatch(r.Header.Get("Authorization")); signed != nil {
			return signed[1]
		}
	}
	return ""
}

// noHost is what a client meets that asks for the endpoint of a region that does not exist.
func noHost(region string) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
		Err: "no such host", Name: "ec2." + region + ".amazonaws.com", Server: "10.0.0.10:53", IsNotFound: true,
	}}
}

// reachable reports whether the call reaches its region. Where the region is down it returns when
// the caller gives up.
func (s *Server) reachable(ctx context.Context, c call) bool {
	if !s.account.has(c.region) {
		return false
	}
	down := false
	s.sim.Write(func(*simcloud.Book) {
		for i := range s.scripted {
			if f := &s.scripted[i]; f.Hangs && f.hits(c) {
				f.left--
				down = true
				return
			}
		}
	})
	if down {
		<-ctx.Done()
	}
	return !down
}
