"""The Streamlit app: pages, background runs, live pictures."""
