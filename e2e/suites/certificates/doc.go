// Package certificates proves on a real control plane that the certificates which cert-manager
// issues carry Stratos: its own controllers sign and renew them, kube-scheduler asks the extender
// with them, and no other client is let in.
package certificates
