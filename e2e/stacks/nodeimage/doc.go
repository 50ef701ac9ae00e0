// Package nodeimage runs the node images of the cluster stacks as far as a machine without AWS can:
// Packer and ShellCheck of Debian read the template and the scripts, and the scripts run in a root
// folder of each distribution. It has tests only.
package nodeimage
