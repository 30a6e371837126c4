// Package broker tests internal/broker against real brokers: what kafka's own
// broker accepts, refuses and checks, where the embedded one does not.
package broker
