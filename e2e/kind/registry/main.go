// Command registry is an image registry in one process, of the distribution project's own packages:
// the images that the suites let nodes pull come from here, and its log of requests shows who
// pulled what. It keeps everything in memory.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // makes itself known by being imported
)

func main() {
	if err := run(context.Background(), ":5000"); err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	config := &configuration.Configuration{Storage: configuration.Storage{"inmemory": configuration.Parameters{}}}
	config.Log.Level = "error"
	config.Log.AccessLog.Disabled = true
	config.Catalog.MaxEntries = 1000
	server := &http.Server{Addr: address, ReadHeaderTimeout: 10 * time.Second,
		Handler: logged(os.Stdout, handlers.NewApp(ctx, config))}
	return server.ListenAndServe()
}
