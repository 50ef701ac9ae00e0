// Package charts is where the Helm chart's own tests stand: they read what make generate rendered
// of it (testdata/rendered) and hold it to the types of those who will read it. Rendering, linting
// and applying it to an API server is the business of the module e2e/helm.
package charts
