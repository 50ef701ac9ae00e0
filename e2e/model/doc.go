// Package model plays a small world around the real code of Stratos and checks after every step
// that the invariants of docs/reliability.md hold. Everything in it happens on one thread in an
// order that a seed decides, so a failure can be played again; docs/model.md says what is played.
package model
