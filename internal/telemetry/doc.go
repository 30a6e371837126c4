// Package telemetry listens to the engine's events: it logs the life of tasks,
// counts for Prometheus, and serves health, readiness and metrics over HTTP. It
// listens on loopback unless told otherwise, and wants a token beyond it.
package telemetry
