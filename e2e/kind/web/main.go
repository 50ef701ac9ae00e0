// Command web is what the suite's pods run: it answers every request with the pod's own name, so
// that a test knows who answered.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	name, err := os.Hostname() // a pod's is its name
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Addr:              ":8080",
		ReadHeaderTimeout: 10 * time.Second,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) }),
	}
	log.Fatal(server.ListenAndServe())
}
