"""OpenSearch and Elasticsearch 7 as search engines."""
