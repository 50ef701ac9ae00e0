// Package crashes proves that Stratos may die at any write: a whole life is recorded write by
// write, and then Stratos, a process, is killed at each of them.
package crashes
