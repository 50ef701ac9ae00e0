// Package v20170312 has the names that flannel's backend for Tencent's cloud takes from Tencent's
// package of the same name. The Go module proxy does not serve that one, and flannel cannot be
// built without it. Every call fails.
package v20170312

import "errors"

var errNotBuilt = errors.New("this flannel is built without the API of Tencent's VPC")

// Client refuses every call.
type Client struct{}

// NewClientWithSecretId returns a Client.
func NewClientWithSecretId(_, _, _ string) (*Client, error) { return &Client{}, nil }

// Filter is part of a request.
type Filter struct {
	Name   *string
	Values []*string
}

// Route is one row of a RouteTable.
type Route struct {
	RouteId                                                 *uint64
	DestinationCidrBlock, GatewayType, GatewayId, RouteType *string
	Enabled                                                 *bool
}

// RouteTable has the routes of a subnet.
type RouteTable struct {
	RouteTableId *string
	RouteSet     []*Route
}

// DescribeRouteTablesRequest asks for route tables.
type DescribeRouteTablesRequest struct{ Filters []*Filter }

// DescribeRouteTablesResponse would have them.
type DescribeRouteTablesResponse struct {
	Response *struct{ RouteTableSet []*RouteTable }
}

// RoutesRequest creates or deletes routes.
type RoutesRequest struct {
	RouteTableId *string
	Routes       []*Route
}

// NewDescribeRouteTablesRequest returns an empty request.
func NewDescribeRouteTablesRequest() *DescribeRouteTablesRequest {
	return &DescribeRouteTablesRequest{}
}

// NewDeleteRoutesRequest returns an empty request.
func NewDeleteRoutesRequest() *RoutesRequest { return &RoutesRequest{} }

// NewCreateRoutesRequest returns an empty request.
func NewCreateRoutesRequest() *RoutesRequest { return &RoutesRequest{} }

// DescribeRouteTables fails.
func (*Client) DescribeRouteTables(*DescribeRouteTablesRequest) (*DescribeRouteTablesResponse, error) {
	return nil, errNotBuilt
}

// DeleteRoutes fails.
func (*Client) DeleteRoutes(*RoutesRequest) (struct{}, error) { return struct{}{}, errNotBuilt }

// CreateRoutes fails.
func (*Client) CreateRoutes(*RoutesRequest) (struct{}, error) { return struct{}{}, errNotBuilt }
