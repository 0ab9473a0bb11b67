// The search runs in a Web Worker, which browsers refuse to a page opened from disk. There it runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = (this.inside = frame.contentWindow);
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = async (...urls) => {
        for (const each of urls) await load(inside.document, each);
      };
      this.ready = load(inside.document, url);
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };

  const load = (page, url) =>
    new Promise((resolve, reject) => {
      const script = Object.assign(page.createElement("script"), { src: url, onload: resolve, onerror: reject });
      page.body.append(script);
    });
}
