package main

import (
	"fmt"
	"io"
	"net/http"
	"sync"
)

// logged writes one line for each request: method and path. Tests count them.
func logged(to io.Writer, next http.Handler) http.Handler {
	var lines sync.Mutex // guards to: lines do not mix
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines.Lock()
		fmt.Fprintln(to, r.Method, r.URL.Path)
		lines.Unlock()
		next.ServeHTTP(w, r)
	})
}
