package aws

import (
	"context"
	"fmt"
	"io"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// plainBody hides the WriteTo of a request's body. smithy-go closes the body as soon as the answer
// begins, and its WriteTo then returns io.EOF. net/http takes that for a request that could not be
// written where it has still to look at the body's end: it closes the connection under the answer,
// and the SDK makes a call again that EC2 has accepted. Machines that are busy show it (issue 2737
// of aws-sdk-go-v2).
func plainBody(stack *middleware.Stack) error {
	return stack.Build.Add(middleware.BuildMiddlewareFunc("StratosPlainBody",
		func(ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler) (
			middleware.BuildOutput, middleware.Metadata, error) {
			if request, isHTTP := in.Request.(*smithyhttp.Request); isHTTP {
				if body, canRewind := request.GetStream().(io.ReadSeeker); canRewind {
					plain, err := request.SetStream(struct{ io.ReadSeeker }{body})
					if err != nil {
						return middleware.BuildOutput{}, middleware.Metadata{}, fmt.Errorf("request body: %w", err)
					}
					in.Request = plain
				}
			}
			return next.HandleBuild(ctx, in)
		}), middleware.After)
}
