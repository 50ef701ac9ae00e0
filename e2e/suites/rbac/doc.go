// Package rbac proves that what the chart allows Stratos and its scheduler is enough for a whole
// life of pools, and not more than they use.
package rbac
