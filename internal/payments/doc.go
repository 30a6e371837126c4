// Package payments makes the payments that the demo, the benchmarks and the
// tests run on: an endless, reproducible sequence, and what enriching each must
// give. `exactly produce` writes them to a topic.
//
// Payment i has the id UUIDv5(DNS, "payment-i"), amount_cents (i mod 500)·100 +
// 1000, and the merchant "merchant-" with i mod 20 in three digits. Its key is
// its id. Nothing here knows pipelines: audits that use Enrich have a second
// opinion that shares no code with the steps.
package payments
