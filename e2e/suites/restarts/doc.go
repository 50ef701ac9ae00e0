// Package restarts proves on a real control plane that Stratos survives its own death: killed at
// random moments of a burst, alone or as one of two replicas, it starts no node twice, leaks no
// instance, and every pod runs in the end. Killing is SIGKILL of a process; the cloud is another
// process and goes on.
package restarts
