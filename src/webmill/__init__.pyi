from webmill.infra.plugins.hooks import PluginPage as PluginPage
from webmill.infra.plugins.hooks import hookimpl as hookimpl
from webmill.pipeline.api import crawl as crawl
from webmill.pipeline.api import curate as curate
from webmill.pipeline.api import extract as extract
from webmill.pipeline.api import index as index
from webmill.pipeline.api import publish as publish
from webmill.pipeline.api import run as run
from webmill.pipeline.api import save as save
from webmill.pipeline.api import search as search
from webmill.pipeline.api import update_search as update_search
from webmill.pipeline.collection_reader import open_collection as open_collection
from webmill.pipeline.curate.kept import corpus as corpus
from webmill.pipeline.documents import documents as documents
from webmill.pipeline.remote_collection import connect as connect
from webmill.settings import CrawlSettings as CrawlSettings
from webmill.settings import CurateSettings as CurateSettings
from webmill.settings import ExtractSettings as ExtractSettings
from webmill.settings import IndexSettings as IndexSettings
from webmill.settings import PublishSettings as PublishSettings
from webmill.settings import SearchSettings as SearchSettings
from webmill.settings import Settings as Settings

__version__: str
