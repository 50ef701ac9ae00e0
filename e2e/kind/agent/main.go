// Command agent plays the agent of a CNI: it mounts the CNI's folders, writes nothing into them,
// and its readiness probe succeeds once a file is there. That lies below /run, which no boot of a
// node keeps.
package main

import (
	"log"
	"net/http"
	"os"
	"time"
)

// up is made by the test that says when the agent is Ready.
const up = "/run/cni-agent/up"

func main() {
	server := &http.Server{
		Addr:              ":" + os.Getenv("PORT"),
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, err := os.Stat(up); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
			}
		}),
	}
	log.Fatal(server.ListenAndServe())
}
